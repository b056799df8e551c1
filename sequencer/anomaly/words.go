package anomaly

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Who is an operation of a history as reports name it.
type Who struct {
	Line      int    `json:"line"`
	Txn       string `json:"txn,omitempty"`
	Agent     string `json:"agent"`
	ReadTime  uint64 `json:"read_time"`
	WriteTime uint64 `json:"write_time"`
	Aborted   bool   `json:"aborted,omitempty"`
}

// Who is the operation of an index.
func (h *History) Who(i uint32) Who {
	o := &h.ops[i]
	return Who{Line: int(o.line), Txn: h.names.text[o.name], Agent: h.agents.text[o.agent], ReadTime: o.readTime,
		WriteTime: o.writeTime, Aborted: o.aborted}
}

// Label is how sentences name it: by transaction, else by line.
func (w Who) Label() string {
	if w.Txn != "" {
		return w.Agent + " (" + w.Txn + ")"
	}
	return fmt.Sprintf("%s (line %d)", w.Agent, w.Line)
}

// Stale is what the reader of an A1 read, and what the first writer in between wrote.
func (h *History) Stale(f *Finding) (read, wrote string) {
	return h.values.text[f.read], h.values.text[f.wrote]
}

// Sentence says what was found, with its witness.
func (h *History) Sentence(f *Finding) string {
	who := make([]Who, len(f.Records))
	for i, record := range f.Records {
		who[i] = h.Who(record)
	}
	if cell, known := h.cells.number[f.Cell]; known && f.Kind != A2 { // of A2 it is a tool
		for i, record := range f.Records {
			who[i].ReadTime = h.readAt(record, cell)
		}
	}
	first := who[0]
	read, wrote := brief(h.values.text[f.read]), brief(h.values.text[f.wrote])
	switch f.Kind {
	case A1:
		more := ""
		if f.Count > 1 {
			more = fmt.Sprintf(", the first of %d such writes", f.Count)
		}
		return fmt.Sprintf("%s read %s = %s at %d; %s wrote %s at %d%s, before %s committed at %d: it committed on a "+
			"value that was no longer current", first.Label(), f.Cell, read, first.ReadTime, who[1].Label(), wrote,
			who[1].WriteTime, more, first.Agent, first.WriteTime)
	case A2:
		return first.Label() + " " + h.phantom(f, first)
	case A3:
		return h.cascadeText(f, who, read)
	case A4, A4v:
		at := ""
		if f.Kind == A4v {
			at = " at one version"
		}
		return fmt.Sprintf("%s read %s = %s at %d and %s read %s at %d, from replicas %s%s: the replicas disagree",
			first.Label(), f.Cell, read, first.ReadTime, who[1].Label(), wrote, who[1].ReadTime, f.Cell2, at)
	case A6:
		return fmt.Sprintf("%s issued its effect on %s before others, and the effect on %s happened first: the world saw "+
			"them in another order", first.Label(), f.Cell, f.Cell2)
	case LostUpdate:
		return fmt.Sprintf("%s read %s = %s at %d and wrote it at %d; the value %s that %s wrote at %d in between is "+
			"overwritten unread", first.Label(), f.Cell, orUnknown(read), first.ReadTime, first.WriteTime, orUnknown(wrote),
			who[1].Label(), who[1].WriteTime)
	case WriteSkew:
		return fmt.Sprintf("%s overwrote %s, which %s had read, and %s overwrote %s, which %s had read: neither saw "+
			"the other's write", who[1].Label(), f.Cell, first.Label(), first.Label(), f.Cell2, who[1].Label())
	case Cycle:
		return h.cycleText(f, who)
	case NullOverwrite:
		return fmt.Sprintf("%s deleted %s at %d, and had not read the value %s that %s wrote at %d", first.Label(), f.Cell,
			first.WriteTime, wrote, who[1].Label(), who[1].WriteTime)
	case Effects:
		return fmt.Sprintf("%s issued other effects than happened: the first that differs is on %s", first.Label(), f.Cell)
	case Scar:
		return fmt.Sprintf("%s was committed at %d, before %s, which it rests on, at %d: the commit order contradicts "+
			"causality", first.Label(), first.WriteTime, who[1].Label(), who[1].WriteTime)
	}
	return ""
}

// brief is a value as sentences have it: of a hash, which is what hence export has of a content, how that begins.
func brief(value string) string {
	const shown = 12
	hash := strings.Trim(value, `"`)
	if len(hash) != 2*sha256.Size || strings.Trim(hash, "0123456789abcdef") != "" {
		return value
	}
	return hash[:shown] + "…"
}

func orUnknown(value string) string {
	if value == "" {
		return "(not recorded)"
	}
	return value
}

func (h *History) phantom(f *Finding, w Who) string {
	switch f.how {
	case bySignature:
		return fmt.Sprintf("planned to call %s at %d, and at %d the tool had another signature", f.Cell, w.ReadTime,
			w.WriteTime)
	case byUse:
		return fmt.Sprintf("planned to call %s at %d and did not: the tool may have gone, or the agent changed its mind",
			f.Cell, w.ReadTime)
	}
	return fmt.Sprintf("planned to call %s, which was registered at %d and no longer at %d, when it committed", f.Cell,
		w.ReadTime, w.WriteTime)
}

func (h *History) cascadeText(f *Finding, who []Who, read string) string {
	first := who[0]
	if f.how == byResidue {
		return fmt.Sprintf("%s read %s = %s at %d, which no standing operation had written: it rests on an aborted one, "+
			"or on a value from before the history", first.Label(), f.Cell, read, first.ReadTime)
	}
	through := ""
	if f.how == byOthers {
		return fmt.Sprintf("%s stands, and rests through others on %s, which was aborted", first.Label(), who[1].Label())
	}
	if f.Cell != "" {
		through = fmt.Sprintf(" through %s = %s", f.Cell, read)
	}
	more := ""
	if f.Count > 1 {
		more = fmt.Sprintf(", one of %d aborted ones", f.Count)
	}
	return fmt.Sprintf("%s stands, and rests on %s%s%s, which was aborted", first.Label(), who[1].Label(), through, more)
}

func (h *History) cycleText(f *Finding, who []Who) string {
	var b strings.Builder
	for i, w := range who {
		next := who[(i+1)%len(who)]
		switch e := f.Edges[i]; e.Kind {
		case WW:
			fmt.Fprintf(&b, "%s overwrote %s of %s", next.Label(), e.Cell, w.Label())
		case WR:
			fmt.Fprintf(&b, "%s read %s of %s", next.Label(), e.Cell, w.Label())
		case RW:
			fmt.Fprintf(&b, "%s overwrote %s after %s had read it", next.Label(), e.Cell, w.Label())
		}
		if i+1 < len(who) {
			b.WriteString(", ")
		}
	}
	return fmt.Sprintf("%s: no serial order has all of this (%s, %d operations depend on each other)", b.String(),
		f.Class(), f.Count)
}
