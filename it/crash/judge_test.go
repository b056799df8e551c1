package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// readJournal reads what a dead sidecar's journal has of tool calls: frames of length, two checksums and a body, whose
// first byte is the record's kind; F is a call, M a mark on one.
func readJournal(dir string) (map[spot]*gate.Progress, error) {
	files, err := harness.JournalsIn(dir)
	if err != nil {
		return nil, err
	}
	all := map[spot]*gate.Progress{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		at := len(harness.JournalMagic)
		for _, end := range harness.FrameEnds(data) {
			record := data[at+harness.JournalHeader : end]
			if err := applyJournal(all, record[0], record[1:]); err != nil {
				return nil, fmt.Errorf("%s at %d: %w", path, at, err)
			}
			at = end
		}
	}
	return all, nil
}

func applyJournal(all map[spot]*gate.Progress, kind byte, body []byte) error {
	switch kind {
	case 'F':
		p := &gate.Progress{}
		if err := json.Unmarshal(body, p); err != nil {
			return err
		}
		all[spot{string(p.Tx), int(p.Index)}] = p
	case 'M':
		var m gate.Mark
		if err := json.Unmarshal(body, &m); err != nil {
			return err
		}
		if p := all[spot{string(m.Tx), int(m.Index)}]; p != nil {
			p.Apply(m)
		}
	}
	return nil
}

// known is what the log and the sink have of one effect.
type known struct {
	deed
	tool     string
	scopes   []string
	fault    string
	undo     string // the fault of its compensation
	answered bool   // the log has what the sink answered
	undone   bool   // the log has what the sink answered to the compensation
	tx       check.Decision
	result   *sequencer.Result // what its settlement says of it
}

func (k *known) held() bool  { return k.tool == "charge" || k.tool == "note" || k.tool == "gone" }
func (k *known) keyed() bool { return k.tool == "reserve" || k.tool == "charge" || k.tool == "away" }

// stands: it happened, and was not taken back.
func (k *known) stands() bool { return k.deed.done > 0 && k.deed.undone == 0 }

// crashCase is everything that is known of one workspace after its kills.
type crashCase struct {
	calls     map[spot]*known
	decisions []check.Decision
	residue   map[spot]topology.Residue
	settled   map[string]*sequencer.Settle // accepted, by transaction
	journals  []map[spot]*gate.Progress    // as each kill left them
	retracted map[string]bool              // transactions that were undone after their commit
	stranger  bool                         // another sidecar settled without the journal
	late      bool                         // what that journal has of answers may have been published after that
}

// gather reads a workspace's topics.
func gather(tb testing.TB, servers *harness.Servers, workspace string, outcomes []*sequencer.Outcome,
	deeds map[spot]deed) *crashCase {
	tb.Helper()
	c := &crashCase{calls: map[spot]*known{}, residue: map[spot]topology.Residue{},
		settled: map[string]*sequencer.Settle{}, retracted: map[string]bool{}}
	for _, ev := range harness.ReadEvents(tb, servers.Brokers, workspace) {
		c.event(tb, ev)
	}
	for at, d := range deeds {
		k := c.at(at)
		if k.deed = d; d.tool != "" {
			k.tool = d.tool
		}
	}
	accepted := map[int64]bool{}
	for _, o := range outcomes {
		accepted[o.Offset] = accepted[o.Offset] || o.Kind == sequencer.OutcomeSettled
		if o.Kind == sequencer.OutcomeSettled && o.Retraction != "" {
			c.retracted[string(o.Tx)] = true
		}
	}
	c.decisions = append(c.decisions, harness.Checked(outcomes)...)
	for _, r := range harness.ReadTopic(tb, servers.Brokers, topology.TopicIntents, workspace) {
		in, err := topology.DecodeIntent(r.Value)
		if err != nil {
			tb.Fatal(err)
		}
		if in.Kind == sequencer.IntentSettle && accepted[r.Offset] {
			c.settled[string(in.Tx)] = in.Settle
		}
	}
	for key, value := range harness.ReadTable(tb, servers.Brokers, topology.TopicResidue, workspace) {
		r, err := topology.DecodeResidue(value)
		if err != nil {
			tb.Fatalf("%s: %v", key, err)
		}
		c.residue[spot{string(r.Tx), int(r.Index)}] = *r
	}
	c.join()
	return c
}

func (c *crashCase) at(s spot) *known {
	if c.calls[s] == nil {
		c.calls[s] = &known{}
	}
	return c.calls[s]
}

func (c *crashCase) event(tb testing.TB, ev *topology.Event) {
	if ev.Effect == nil {
		return
	}
	k := c.at(spot{string(ev.Tx), int(ev.Effect.Index)})
	switch {
	case ev.Kind == topology.EventEffect:
		var args struct {
			Fault string `json:"fault"`
			Undo  string `json:"undo"`
		}
		if ev.Effect.Args != nil {
			if err := json.Unmarshal(ev.Effect.Args, &args); err != nil {
				tb.Fatal(err)
			}
		}
		k.tool, k.fault, k.undo = ev.Effect.Tool, args.Fault, args.Undo
		k.scopes = nil
		for _, s := range ev.Effect.Scopes {
			k.scopes = append(k.scopes, string(s))
		}
	case gate.Step(ev.Effect.Step) == gate.StepAnswered:
		k.answered = true
	case gate.Step(ev.Effect.Step) == gate.StepUndone:
		k.undone = true
	}
}

// join gives each call its transaction's decision and what its settlement says.
func (c *crashCase) join() {
	decided := map[string]check.Decision{}
	for _, d := range c.decisions {
		if d.Kind == "committed" || d.Kind == "aborted" {
			decided[d.Tx] = d
		}
	}
	for at, k := range c.calls {
		if k.tx = decided[at.tx]; c.retracted[at.tx] {
			k.tx.Kind = "retracted"
		}
		if s := c.settled[at.tx]; s != nil {
			for _, e := range s.Effects {
				if int(e.Index) == at.index {
					k.result = &e.Result
				}
			}
		}
	}
}

// violations are what does not hold.
func (c *crashCase) violations() []string {
	var all []string
	for _, v := range c.general() {
		all = append(all, v.String())
	}
	for at, k := range c.calls {
		for _, text := range c.judge(at, k) {
			all = append(all, fmt.Sprintf("%s (%s, fault %q, undo %q, %s, at the sink: %d calls, %d done, %d undone): %s", at,
				k.tool, k.fault, k.undo, k.tx.Kind, k.deed.arrived, k.deed.done, k.deed.undone, text))
		}
	}
	for at, r := range c.residue {
		k := c.calls[at]
		if (k == nil || k.result == nil || *k.result != r.Result) && !(c.late && c.unasked(at.tx)) {
			all = append(all, fmt.Sprintf("%s is on the list as %s, its settlement does not say so", at, r.Result))
		}
	}
	slices.Sort(all)
	return all
}

// general runs the checks of every history of effects.
func (c *crashCase) general() []check.Violation {
	e := &check.Effects{History: check.History{Decisions: c.decisions}}
	for at, k := range c.calls {
		e.Issued = append(e.Issued, check.Issued{Tx: at.tx, Index: at.index, Key: k.deed.key, Scopes: k.scopes,
			Held: k.held()})
		for range k.deed.done {
			e.Sent = append(e.Sent, check.Sent{At: k.deed.at, Tx: at.tx, Index: at.index, Key: k.deed.key})
		}
		if r, named := c.residue[at]; named {
			e.Residue = append(e.Residue, check.Unclean{Tx: at.tx, Index: at.index, Result: r.Result.String()})
		}
	}
	return slices.Concat(e.Leaks(), e.Duplicates(), e.Lost(), e.Orders())
}

// judge says what is wrong with one effect.
func (c *crashCase) judge(at spot, k *known) (all []string) {
	add := func(wrong bool, text string) {
		if wrong {
			all = append(all, text)
		}
	}
	committed, aborted := k.tx.Kind == "committed", k.tx.Kind == "aborted" || k.tx.Kind == "retracted"
	add(k.deed.done > 1, "it happened more than once")
	add(k.deed.undone > 1, "it was undone more than once")
	add(!k.held() && !committed && !aborted && k.stands(), "it ran, and its transaction was never decided")
	if k.result == nil {
		add(committed && k.held(), "its settlement does not name it")
		add(aborted && k.stands(), "it stands, and its settlement does not name it")
	}
	add(committed && !k.held() && k.tool != "away" && !k.stands(), "it was committed as done, and does not stand")
	if k.result == nil {
		return all
	}
	_, listed := c.residue[at]
	add(listed != (*k.result != sequencer.ResultClean), "its settlement and the list of residues differ")
	switch *k.result {
	case sequencer.ResultClean:
		add(committed && !k.stands(), "it is called clean, and did not happen")
		add(aborted && k.stands(), "it is called clean, and stands")
	case sequencer.ResultLeaked:
		add(!k.stands(), "it is called leaked, and does not stand")
	case sequencer.ResultPartial:
		add(k.deed.done > 0, "it is said not to have left, and happened")
	case sequencer.ResultUnresolved:
		add(!c.excused(at, k), "it is called unresolved, and its outcome could be known")
	}
	return all
}

// excused: its outcome could not be known.
func (c *crashCase) excused(at spot, k *known) bool {
	if c.late && c.unasked(at.tx) {
		return true
	}
	if k.keyed() { // only if there is no answer, if one before it is not known to a stranger, or if its undo is refused
		return k.tool == "away" || c.stranger && c.behindUnclean(at) || k.undo == faultRefuse && c.undoOpen(at)
	}
	if k.fault == faultLose || k.undo == faultLose || k.undo == faultDropOnce {
		return true
	}
	if c.stranger && (c.late || !k.answered || k.deed.done > 0 && !k.held() && !k.undone) {
		return true
	}
	for _, j := range c.journals {
		if p := j[at]; p != nil && (p.Started && p.Answer == nil || p.Undoing && p.UndoDone == nil) {
			return true
		}
	}
	return false
}

// undoOpen: a former owner may have had an undo on its way. A sink that refuses the repetition says nothing of that.
func (c *crashCase) undoOpen(at spot) bool {
	if c.stranger {
		return true
	}
	for _, j := range c.journals {
		if p := j[at]; p != nil && p.Undoing && p.UndoDone == nil {
			return true
		}
	}
	return false
}

// unasked: an eager call of a transaction never left. Where the journal alone has it, the log may not have granted its
// scopes: a stranger's settlement that names them is refused, and then the whole transaction is called unresolved.
func (c *crashCase) unasked(tx string) bool {
	for at, k := range c.calls {
		if at.tx == tx && !k.held() && k.deed.arrived == 0 && k.tool != "away" {
			return true
		}
	}
	return false
}

func (c *crashCase) behindUnclean(at spot) bool {
	for before := range at.index {
		if r, listed := c.residue[spot{at.tx, before}]; listed && r.Result != sequencer.ResultClean {
			return true
		}
	}
	return false
}
