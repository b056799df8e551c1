package sequencer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/script"
)

// machine runs the lines of a script over a fold. It stands for the sidecars: it counts their intents, knows their
// incarnations and puts in what a line leaves out.
type machine struct {
	fold  *sequencer.Fold
	log   []*sequencer.Intent // the record at each offset
	chain []sequencer.Hash    // the chain hash after each record

	incarnation map[string]sequencer.Seq         // by agent
	agent       map[sequencer.TxID]string        // who began it
	base        map[sequencer.TxID]sequencer.Seq // the view at its begin
	granted     map[sequencer.TxID][]string      // its granted touches
	count       map[string]uint32                // the last n by transaction and verb
	last        map[string]*sequencer.Intent     // the last intent by "tx verb" or "verb agent"
}

func newMachine() *machine {
	return &machine{fold: sequencer.New("ws"),
		incarnation: map[string]sequencer.Seq{}, agent: map[sequencer.TxID]string{},
		base:    map[sequencer.TxID]sequencer.Seq{},
		granted: map[sequencer.TxID][]string{}, count: map[string]uint32{}, last: map[string]*sequencer.Intent{}}
}

// run runs one line and returns what it printed.
func (m *machine) run(text string) (string, error) {
	verb, rest, _ := strings.Cut(text, " ")
	switch verb {
	case "restore":
		return m.restore()
	case "dup":
		in := m.last[rest]
		if in == nil {
			return "", fmt.Errorf("no intent %q to repeat", rest)
		}
		return m.step(in)
	case "ticks":
		var n int
		if _, err := fmt.Sscan(rest, &n); err != nil {
			return "", fmt.Errorf("ticks %s: %w", rest, err)
		}
		return m.ticks(n)
	}
	in, err := script.ParseWith(strings.Replace(text, " = ", " ", 1), m.fill)
	if err != nil {
		return "", err
	}
	m.remember(in)
	return m.step(in)
}

// ticks lets time pass and prints the steps in which something happened.
func (m *machine) ticks(n int) (string, error) {
	var out strings.Builder
	for range n {
		printed, err := m.run("tick")
		if err != nil {
			return "", err
		}
		if printed != nothing {
			out.WriteString(printed)
		}
	}
	if out.Len() == 0 {
		return nothing, nil
	}
	return out.String(), nil
}

const nothing = "(nothing)\n"

// step feeds one intent and prints the outcomes.
func (m *machine) step(in *sequencer.Intent) (string, error) {
	step, err := m.fold.Step(int64(len(m.log)), in)
	if err != nil {
		return fmt.Sprintf("error: %v\n", err), nil
	}
	m.log = append(m.log, in)
	st := m.fold.State()
	again, err := sequencer.Restore(st)
	if hole() == "" && (err != nil || !maps.Equal(again.Counters(), m.fold.Counters())) { // else they may differ
		return "", fmt.Errorf("the fold counts %v, and one that is restored from its state does not (%v)",
			m.fold.Counters(), err)
	}
	m.chain = append(m.chain, st.Chain)
	var out strings.Builder
	for i := range step.Outcomes {
		o := &step.Outcomes[i]
		m.see(o)
		fmt.Fprintln(&out, script.FormatOutcome(o))
	}
	for _, seq := range step.Repeats {
		fmt.Fprintf(&out, "(repeats %d)\n", seq)
	}
	switch {
	case step.Ignored:
		return "(ignored)\n", nil
	case out.Len() == 0:
		return nothing, nil
	}
	return out.String(), nil
}

// see notes what the sidecars learn from an outcome.
func (m *machine) see(o *sequencer.Outcome) {
	switch o.Kind {
	case sequencer.OutcomeJoined:
		m.incarnation[o.Agent] = o.Seq
	case sequencer.OutcomeGranted:
		m.granted[o.Tx] = append(m.granted[o.Tx], o.Intent[strings.LastIndexByte(o.Intent, ':')+1:])
	}
}

func (m *machine) remember(in *sequencer.Intent) {
	if in.Tx == "" {
		m.last[in.Kind.String()+" "+in.Agent] = in
		m.last[in.Kind.String()] = in
		return
	}
	m.last[string(in.Tx)+" "+in.Kind.String()] = in
	m.count[string(in.Tx)+" "+in.Kind.String()] = in.N
	if _, known := m.agent[in.Tx]; !known {
		m.agent[in.Tx], m.base[in.Tx] = in.Agent, in.Base
	}
}

// fill puts in what a line left out.
func (m *machine) fill(in *sequencer.Intent, given func(string) bool) {
	head := m.fold.Seq()
	if in.Tx != "" {
		if !given("agent") {
			in.Agent = m.agent[in.Tx]
		}
		if !given("n") {
			in.N = m.count[string(in.Tx)+" "+in.Kind.String()] + 1
		}
	}
	if !given("base") {
		in.Base = head
		if base, known := m.base[in.Tx]; known {
			in.Base = base
		}
	}
	switch in.Kind {
	case sequencer.IntentJoin, sequencer.IntentTick, sequencer.IntentRules:
		in.Base = 0
	default:
		if !given("inc") {
			in.Incarnation = m.incarnation[in.Agent]
		}
	}
	m.fillPayload(in, given)
}

func (m *machine) fillPayload(in *sequencer.Intent, given func(string) bool) {
	head := m.fold.Seq()
	switch {
	case in.Join != nil && !given("id"):
		in.Join.ID = fmt.Sprintf("j%d", len(m.log))
	case in.Tick != nil && !given("tick"):
		in.Tick.N = m.fold.State().TickN + 1
	case in.Watermark != nil && !given("seq"):
		in.Watermark.Seq = head
	case in.Verdict != nil && !given("of") && len(in.Verdict.Approvals) == 0:
		in.Verdict.Footprint = m.tx(in.Tx).Footprint
	case in.Rules != nil:
		fillRules(in.Rules, m.fold.State().Rules, given)
	case in.Seal != nil:
		if !given("touched") {
			in.Seal.Touches = m.touched(in.Tx)
		}
		for i := range in.Seal.Reads {
			if in.Seal.Reads[i].View == script.Now {
				in.Seal.Reads[i].View = head
			}
		}
		for _, w := range in.Seal.Shards {
			if w.Expect != nil && w.Expect.View == script.Now {
				w.Expect.View = head
			}
			if w.Former != nil && w.Former.View == script.Now {
				w.Former.View = head
			}
		}
	}
}

// touched lists every granted touch, with a known outcome.
func (m *machine) touched(id sequencer.TxID) []sequencer.TouchReport {
	var out []sequencer.TouchReport
	for _, text := range m.granted[id] {
		var n uint32
		if _, err := fmt.Sscan(text, &n); err != nil {
			panic(err)
		}
		out = append(out, sequencer.TouchReport{N: n, Known: true})
	}
	return out
}

func (m *machine) tx(id sequencer.TxID) sequencer.TxState {
	txs := m.fold.State().Txs
	if i := slices.IndexFunc(txs, func(t sequencer.TxState) bool { return t.ID == id }); i >= 0 {
		return txs[i]
	}
	return sequencer.TxState{}
}

// fillRules keeps the rules in force but for what the line gives, as the next version.
func fillRules(r *sequencer.Rules, now sequencer.Rules, given func(string) bool) {
	keep(given("version"), &r.Version, now.Version+1)
	keep(given("logic"), &r.Logic, now.Logic)
	keep(given("levels"), &r.Levels, now.Levels)
	keep(given("horizon"), &r.HorizonSeqs, now.HorizonSeqs)
	keep(given("commits"), &r.HorizonCommits, now.HorizonCommits)
	keep(given("undo"), &r.HorizonTicks, now.HorizonTicks)
	keep(given("cap"), &r.CapSeqs, now.CapSeqs)
	keep(given("lease"), &r.LeaseTicks, now.LeaseTicks)
	keep(given("deadline"), &r.DeadlineTicks, now.DeadlineTicks)
	keep(given("bound"), &r.BoundTicks, now.BoundTicks)
	keep(given("verdict"), &r.VerdictTicks, now.VerdictTicks)
	keep(given("open"), &r.MaxOpen, now.MaxOpen)
	keep(given("scopes"), &r.MaxScopes, now.MaxScopes)
	keep(given("bytes"), &r.MaxBytes, now.MaxBytes)
	keep(given("inline"), &r.MaxInline, now.MaxInline)
	keep(given("content"), &r.MaxContent, now.MaxContent)
	keep(given("inlines"), &r.MaxInlineTotal, now.MaxInlineTotal)
	keep(given("kept"), &r.MaxKept, now.MaxKept)
	keep(given("sidecars"), &r.MaxSidecars, now.MaxSidecars)
	keep(given("approval"), &r.ApprovalTicks, now.ApprovalTicks)
}

func keep[T any](given bool, field *T, now T) {
	if !given {
		*field = now
	}
}

// restore writes the state out and goes on with the fold that it gives back.
func (m *machine) restore() (string, error) {
	restored, err := sequencer.Restore(m.fold.State())
	if err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	if restored.StateHash() != m.fold.StateHash() {
		return "", fmt.Errorf("restore: the state hash is %x, it was %x", restored.StateHash(), m.fold.StateHash())
	}
	m.fold = restored
	return "(restored)\n", nil
}

// replay feeds the whole log to a new fold, which is written out and read back after each record where restored is
// set, and compares what it comes to after each.
func (m *machine) replay(restored bool) error {
	f := sequencer.New("ws")
	for i, in := range m.log {
		if _, err := f.Step(int64(i), in); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		if restored {
			var err error
			if f, err = sequencer.Restore(f.State()); err != nil {
				return fmt.Errorf("record %d: %w", i, err)
			}
		}
		if st := f.State(); st.Chain != m.chain[i] {
			return fmt.Errorf("record %d (%s): the chain hash differs", i, script.Format(in))
		}
	}
	if f.StateHash() != m.fold.StateHash() {
		return fmt.Errorf("the state hash is %x, it was %x", f.StateHash(), m.fold.StateHash())
	}
	return nil
}
