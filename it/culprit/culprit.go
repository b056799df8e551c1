// Package culprit reads exported decisions and says, of each refusal, whether the log shows what the refusal names:
// the write, grant, choice or withdrawal, at that seq, by that writer, on that scope or tool. It knows the decisions'
// JSON and the table of docs/codes/README.md, and shares no code with Hence.
package culprit

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Decision is one decision, as far as it is looked at.
type Decision struct {
	Seq         uint64  `json:"seq"`
	Kind        string  `json:"kind"`
	Tx          string  `json:"tx"`
	Agent       string  `json:"agent"`
	Incarnation uint64  `json:"incarnation"`
	Intent      string  `json:"intent"`
	Code        string  `json:"code"`
	Scope       string  `json:"scope"`
	Moved       Moved   `json:"moved"`
	By          string  `json:"by"`
	Tool        string  `json:"tool"`
	Floor       uint64  `json:"floor"`
	Group       string  `json:"group"`
	Winner      string  `json:"winner"`
	Server      string  `json:"server"`
	Retraction  string  `json:"retraction"`
	Added       []Hold  `json:"added"`
	Writes      []Write `json:"writes"`
}

// Moved is who moved something, and when.
type Moved struct {
	Seq   uint64 `json:"seq"`
	Tx    string `json:"tx"`
	Agent string `json:"agent"`
}

// Hold is a scope that is bound to a transaction.
type Hold struct {
	Scope string `json:"scope"`
	Kind  string `json:"kind"`
}

// Write is a scope that moved.
type Write struct {
	Scope string `json:"scope"`
}

// Log is a workspace's exported decisions.
type Log struct {
	All   []Decision
	bySeq map[uint64]*Decision
}

// Read reads the data of CloudEvents, each once however often it was published.
func Read(records [][]byte) (*Log, error) {
	l := &Log{bySeq: map[uint64]*Decision{}}
	for _, r := range records {
		var event struct {
			Data Decision `json:"data"`
		}
		if err := json.Unmarshal(r, &event); err != nil {
			return nil, fmt.Errorf("read a decision: %w", err)
		}
		if d := event.Data; d.Seq > 0 && l.bySeq[d.Seq] == nil {
			l.bySeq[d.Seq] = &d
			l.All = append(l.All, d)
		}
	}
	return l, nil
}

// Named reports whether a refusal with this code names its cause.
func Named(d *Decision) bool {
	switch d.Code {
	case "stale_read", "version_mismatch", "cascade", "conflict", "wounded", "lost_branch", "own_transaction",
		"phantom_tool", "too_old":
		return d.Kind == "aborted" || d.Kind == "refused"
	}
	return false
}

// Check says what of a refusal's cause the log does not show; nil: it shows all of it.
func (l *Log) Check(d *Decision) error {
	wrong := func(what string) error {
		return fmt.Errorf("decision %d, %s of %s at %q, moved %+v, tool %q: %s", d.Seq, d.Code, d.Tx, d.Scope, d.Moved,
			d.Tool, what)
	}
	if d.Code == "too_old" {
		if d.Scope == "" && d.Kind == "aborted" || d.Floor == 0 {
			return wrong("it has no scope or no floor")
		}
		return nil
	}
	m := l.bySeq[d.Moved.Seq]
	switch {
	case m == nil || m.Seq >= d.Seq:
		return wrong("the log has nothing at that seq")
	case d.Moved.Tx == "" && d.Code != "phantom_tool":
		return wrong("no culprit is named")
	case d.Scope == "" && d.Code != "lost_branch" && d.Code != "phantom_tool":
		return wrong("no scope is named")
	}
	ok := false
	switch d.Code {
	case "stale_read", "version_mismatch":
		ok = m.Tx == d.Moved.Tx && m.wrote(d.Scope)
	case "conflict", "own_transaction":
		ok = m.Tx == d.Moved.Tx && m.took(d.Scope)
	case "wounded":
		ok = m.Tx == d.Tx && m.Kind == "granted" && m.took(d.Scope) && l.asks(d.Moved.Tx, d.Seq)
	case "cascade":
		ok = m.Tx == d.Moved.Tx && (m.Kind == "aborted" || m.Kind == "committed" && l.takenBack(m.Tx))
	case "lost_branch":
		ok = m.Kind == "selected" && m.Group == d.Group && m.Winner == d.Moved.Tx
	case "phantom_tool":
		server, _, _ := strings.Cut(d.Tool, "/")
		ok = d.Moved.Agent == m.Agent && m.Agent == d.Agent && m.Incarnation == d.Incarnation &&
			(m.Server == server && server != "" || m.Kind == "joined")
	}
	if !ok {
		return wrong(fmt.Sprintf("what the log has there is a %s of %s", m.Kind, m.Tx))
	}
	return nil
}

func (d *Decision) wrote(scope string) bool {
	for _, w := range d.Writes {
		if w.Scope == scope {
			return true
		}
	}
	return false
}

func (d *Decision) took(scope string) bool {
	for _, h := range d.Added {
		if h.Scope == scope {
			return true
		}
	}
	return false
}

// asks: the transaction's own request made this decision, or it is heard of from there on.
func (l *Log) asks(tx string, from uint64) bool {
	d := l.bySeq[from]
	if d != nil && strings.HasPrefix(d.Intent, tx+":") {
		return true
	}
	for i := range l.All {
		if l.All[i].Tx == tx {
			return true
		}
	}
	return false
}

func (l *Log) takenBack(tx string) bool {
	for i := range l.All {
		if d := &l.All[i]; d.Tx == tx && d.Retraction != "" {
			return true
		}
	}
	return false
}
