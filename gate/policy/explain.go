package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// Explanation is what would happen to one call.
type Explanation struct {
	Tool         string            `json:"tool"`
	Refused      string            `json:"refused,omitempty"`  // why the call would be refused
	Declared     string            `json:"declared,omitempty"` // the name or glob that matched
	Line         int               `json:"line,omitempty"`     // of that declaration
	Class        string            `json:"class,omitempty"`
	Cost         uint32            `json:"cost,omitempty"`
	Scopes       []sequencer.Scope `json:"scopes,omitempty"`
	May          []sequencer.Scope `json:"may,omitempty"`
	Key          string            `json:"key,omitempty"` // business key, or the form of the one that is made of the call
	Signature    string            `json:"signature,omitempty"`
	Adapter      string            `json:"adapter,omitempty"`
	Compensation string            `json:"compensation,omitempty"` // the tool
	Attempts     int               `json:"attempts,omitempty"`
	MaxTimeMs    int64             `json:"max_time_ms,omitempty"`
	Sentences    []string          `json:"sentences"`
}

// Explain says what would happen to a call, in fields and in sentences. Nothing is called.
func (p *Policy) Explain(tool string, args json.RawMessage) Explanation {
	e := Explanation{Tool: tool}
	err := p.MayCall(tool)
	var t gate.Tool
	if err == nil {
		t, err = p.Find(tool, args)
	}
	if err == nil {
		err = p.CheckArguments(tool, args)
	}
	if err != nil {
		e.Refused = err.Error()
		e.Sentences = []string{"The call would be refused: " + e.Refused + "."}
		return e
	}
	e.Class, e.Cost, e.Scopes, e.May = t.Class.String(), t.Cost, t.Scopes, t.May
	e.Attempts, e.MaxTimeMs, e.Key = t.Retry.Attempts, t.MaxTime.Milliseconds(), t.Key
	if t.Pin != nil {
		e.Signature = t.Pin.Signature
	}
	d := p.find(tool)
	e.Declared, e.Line = d.pattern, d.Line
	if d.block != nil {
		e.Adapter = d.block.kind
	}
	if d.undo != nil {
		e.Compensation = d.undo.tool
	}
	if e.Key == "" && t.Keyed {
		e.Key = "<transaction>/<index>"
	}
	if takes := d.argumentSentence(); takes != "" {
		e.Sentences = append(e.Sentences, takes)
	}
	if e.Adapter == gate.KindShard {
		e.Sentences = append(e.Sentences, d.explained(e), e.moves(t))
		e.Sentences = append(e.Sentences, shardSentences(t)...)
		return e
	}
	if e.Adapter == "" { // a receipt would promise what nothing here can do
		e.Refused = fmt.Sprintf("tool %.80q: %v: declare one, or make the call without Hence", tool, ErrNoAdapter)
		e.Sentences = []string{d.explained(e), e.moves(t), "The call would be refused: " + e.Refused + "."}
		return e
	}
	e.Sentences = append(e.Sentences, d.explained(e), e.moves(t), e.runs(t))
	if t.Approve {
		e.Sentences = append(e.Sentences, "An approver has to approve it before the transaction commits.")
	}
	e.Sentences = append(e.Sentences, e.ends(t)...)
	e.Sentences = append(e.Sentences, e.sends(t))
	return e
}

// explained says what the call is and where the policy says so.
func (d *decl) explained(e Explanation) string {
	at := fmt.Sprintf("line %d", e.Line)
	if d.unclassed {
		at += ", which says no class"
	}
	if e.Declared == e.Tool {
		return fmt.Sprintf("%s is %s (%s).", e.Tool, e.Class, at)
	}
	return fmt.Sprintf("%s is %s, by the glob %q (%s).", e.Tool, e.Class, e.Declared, at)
}

func (e Explanation) moves(t gate.Tool) string {
	verb := "moves"
	if t.Class == sequencer.ClassRead {
		verb = "reads"
	}
	switch {
	case len(e.Scopes) == 0:
		return fmt.Sprintf("It %s nothing that has a scope.", verb)
	case len(e.May) > 0:
		return fmt.Sprintf("It %s %s; its touch asks for %s.", verb, and(e.Scopes), and(e.May))
	}
	return fmt.Sprintf("It %s %s.", verb, and(e.Scopes))
}

func (e Explanation) runs(t gate.Tool) string {
	switch {
	case t.Class == sequencer.ClassRead:
		return "It is called at once, and its answer counts as a read from the moment the call left."
	case t.Class.Eager():
		return "It is called as soon as those scopes are granted; until its transaction is final no other one moves them."
	case t.Class == sequencer.ClassBufferable:
		return "It is held: the agent gets a staged receipt at once, and the call is made after the commit."
	}
	return "It is held: the agent gets a held receipt at once, and the call leaves only after the commit."
}

// ends says what a commit and an abort do.
func (e Explanation) ends(t gate.Tool) []string {
	switch t.Class {
	case sequencer.ClassRead:
		return nil
	case sequencer.ClassReversible:
		return []string{"On commit it stands.", fmt.Sprintf("On abort %s undoes it, after the later ones of its "+
			"transaction.", e.Compensation)}
	case sequencer.ClassKnownOutcome:
		return []string{"On commit it stands.",
			"On abort its outcome is looked up, or it is repeated under its key until it " +
				"is known" + e.compensated() + "."}
	}
	retracted := "A retraction cannot take it back and lists it as leaked."
	if e.Compensation != "" {
		retracted = fmt.Sprintf("A retraction makes up for it by %s.", e.Compensation)
	}
	return []string{"On commit it is sent, in the order in which the transaction's calls were issued.",
		"On abort it is dropped and has never left.", retracted}
}

func (e Explanation) compensated() string {
	if e.Compensation == "" {
		return ""
	}
	return ", and " + e.Compensation + " undoes it"
}

func (e Explanation) sends(t gate.Tool) string {
	within := fmt.Sprintf("the %s adapter makes the call, within %v", e.Adapter, t.MaxTime)
	switch {
	case t.Class == sequencer.ClassRead:
		return upper(within) + "."
	case e.Key != "":
		return fmt.Sprintf("%s, under the key %s, tried at most %d times: the sink acts once.", upper(within), e.Key,
			e.Attempts)
	}
	return upper(within) + ", at most once: without a key a call of unknown outcome is not repeated and ends unresolved."
}

func shardSentences(t gate.Tool) []string {
	if t.Class == sequencer.ClassRead {
		return []string{"It is a read of its transaction, from the view: nothing leaves."}
	}
	return []string{"It is a write of its transaction: nothing leaves, and the agent gets a staged receipt at once.",
		"On commit the shard is written, in the step of the commit.", "On abort it is dropped.",
		"A retraction puts back what stood there."}
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func and(scopes []sequencer.Scope) string {
	var texts []string
	for _, s := range scopes {
		texts = append(texts, string(s))
	}
	if len(texts) > 1 {
		last := len(texts) - 1
		return strings.Join(texts[:last], ", ") + " and " + texts[last]
	}
	return strings.Join(texts, "")
}
