package sequencer_test

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/script"
	"github.com/hence-dev/hence/sequencer/testsize"
)

var historiesFlag = flag.Int("twin.histories", 0,
	"random histories in which the fold is compared with its slow twin; 0: 50,000, and 2,000 as a sample")

// twinHistories is how many random histories TestTwin compares; enough: rare branches have to come.
func twinHistories() (n int, enough bool) {
	switch n = *historiesFlag; {
	case n == 0 && testsize.Small():
		n = 2_000
	case n == 0:
		n = 50_000
	}
	return n, n >= 50_000
}

// reached counts what was decided, by kind, code and reason of a wait.
type reached struct {
	count map[string]int
}

func (r *reached) note(o *sequencer.Outcome) {
	r.count["kind "+o.Kind.String()]++
	if o.Code != "" {
		r.count[fmt.Sprintf("%s %s", o.Kind, o.Code)]++
	}
	if o.By != "" {
		r.count["by "+o.By+" "+string(o.Code)]++
	}
	r.noteApprovals(o)
	r.noteSigner(o)
	if o.Would != "" {
		r.count["would "+string(o.Would)]++
	}
	for _, b := range o.BlockedBy {
		r.count["why "+b.Why]++
	}
	if o.Kind == sequencer.OutcomeSettled && !o.Final {
		r.count["settled and not final"]++ // by itself, and then by its turn
	}
	r.noteRetraction(o)
}

// noteRetraction counts what came of retractions.
func (r *reached) noteRetraction(o *sequencer.Outcome) {
	if o.Retraction == "" {
		return
	}
	if len(o.Cone) > 2 {
		r.count["cone of three and more"]++
	}
	for _, w := range o.Shards {
		switch {
		case w.Removes != 0:
			r.count["delta taken out"]++
		case w.Absent:
			r.count["shard taken back"]++
		default:
			r.count["shard restored"]++
		}
	}
	if len(o.Residue) > 0 {
		r.count["turn left residue"]++
	}
	if o.Kind == sequencer.OutcomeTurn && o.Incarnation == 0 {
		r.count["turn of an orphan"]++
	}
}

// complete fails when the histories did not reach all that they are for.
func (r *reached) complete(t *testing.T) {
	t.Helper()
	var wanted []string
	for k := sequencer.OutcomeBegun; k <= sequencer.OutcomeConfirmed; k++ {
		wanted = append(wanted, "kind "+k.String())
	}
	for _, code := range []sequencer.Code{sequencer.CodeStaleRead, sequencer.CodeVersionMismatch, sequencer.CodeConflict,
		sequencer.CodeWounded, sequencer.CodeCascade, sequencer.CodePhantomTool, sequencer.CodeLostBranch,
		sequencer.CodeVetoed, sequencer.CodeHookUnavailable,
		sequencer.CodeDeadline, sequencer.CodeIncompleteFootprint, sequencer.CodeLeaseExpired, sequencer.CodeTooOld,
		sequencer.CodeToolFailed, sequencer.CodeAbortedByAgent, sequencer.CodeRulesChanged,
		sequencer.CodeDenied} {
		wanted = append(wanted, "aborted "+string(code))
	}
	for _, code := range []sequencer.Code{sequencer.CodeOwnTransaction, sequencer.CodeSibling, sequencer.CodeLimit,
		sequencer.CodeLateEffect, sequencer.CodeTouchBound, sequencer.CodeTouchWaiting, sequencer.CodeNotOrphan,
		sequencer.CodeNotDecided, sequencer.CodeNotSealed, sequencer.CodeWrongFootprint, sequencer.CodeUnknownIntent,
		sequencer.CodeLeaseExpired, sequencer.CodeTooOld, sequencer.CodeNotCommitted, sequencer.CodeWrongScopes,
		sequencer.CodeNotWhileObserving} {
		wanted = append(wanted, "refused "+string(code))
	}
	for _, why := range []string{"granted", "claimed", "held", "sealed_read", "read_from", "branch", "verdict",
		"approval", "orphan", "settlement", "retraction"} {
		wanted = append(wanted, "why "+why)
	}
	for _, code := range []sequencer.Code{sequencer.CodeWaiting, sequencer.CodeStaleRead, sequencer.CodeConflict,
		sequencer.CodeVersionMismatch, sequencer.CodePhantomTool, sequencer.CodeCascade, sequencer.CodeTooOld} {
		wanted = append(wanted, "would "+string(code))
	}
	for _, code := range []sequencer.Code{sequencer.CodeStaleRead, sequencer.CodeVersionMismatch, sequencer.CodeCascade,
		sequencer.CodeTooOld} {
		wanted = append(wanted, "by sidecar "+string(code))
	}
	r.came(t, append(wanted, "approved and committed", "approved and waiting", "denied beside a yes",
		"denied by silence", "signed committed", "signed aborted", "signed waiting", "signed refused", "signed by its seal"))
}

// completeRetractions is complete for histories that retract much.
func (r *reached) completeRetractions(t *testing.T) {
	t.Helper()
	r.came(t, []string{"delta taken out", "cone of three and more", "shard taken back", "shard restored",
		"turn left residue", "turn of an orphan", "why settlement", "why retraction", "aborted cascade", "would cascade",
		"kind retracting", "kind turn", "settled and not final"})
}

func (r *reached) came(t *testing.T, wanted []string) {
	t.Helper()
	for _, key := range wanted {
		t.Logf("%7d %s", r.count[key], key)
		if r.count[key] == 0 {
			t.Errorf("no history came to %q", key)
		}
	}
}

// TestTwin compares the fold with its slow twin, record by record: the same outcomes, up to their hash, and the same
// repeats. Now and then the fold is written out and read back.
func TestTwin(t *testing.T) {
	n, enough := twinHistories()
	if seen := compareTwin(t, n, 60, false); enough && !t.Failed() {
		seen.complete(t)
	}
}

// TestTwinRetracts is TestTwin over longer histories of workspaces that retract much.
func TestTwinRetracts(t *testing.T) {
	n, enough := twinHistories()
	if seen := compareTwin(t, n/3, 120, true); enough && !t.Failed() {
		seen.completeRetractions(t)
	}
}

func compareTwin(t *testing.T, n, most int, undo bool) *reached {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	if err := checks.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := checks.Set(before); err != nil {
			t.Error(err)
		}
	}()
	seen := &reached{count: map[string]int{}}
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory()
		h.undo = undo
		for _, word := range rapid.SliceOfN(rapid.Uint64(), most/2, most).Draw(rt, "words") {
			h.dice = dice{word}
			if h.compare(h.next(), h.rarely(10), seen) != nil {
				rt.Fatal(shortest(h.log))
			}
		}
	})
	return seen
}

// pair is the fold and its twin after the same records.
type pair struct {
	fold  *sequencer.Fold
	twin  *twin
	log   []record
	chain sequencer.Hash    // over the twin's outcomes
	said  []sequencer.Abort // what moved so far
}

// record is an intent, and whether the fold is written out and read back after it.
type record struct {
	*sequencer.Intent
	restore bool
}

func newPair() *pair { return &pair{fold: sequencer.New("ws"), twin: newTwin()} }

// compare gives one record to both and says where they differ.
func (p *pair) compare(in *sequencer.Intent, restore bool, seen *reached) error {
	offset := int64(len(p.log))
	p.log = append(p.log, record{in, restore})
	step, err := p.fold.Step(offset, in)
	if err != nil {
		return err
	}
	want, repeats := p.twin.step(offset, in)
	if len(step.Outcomes) != len(want) || !slices.Equal(step.Repeats, repeats) {
		return differ(step.Outcomes, want, fmt.Sprintf("repeats %v, twin %v", step.Repeats, repeats))
	}
	for i := range want {
		got := &step.Outcomes[i]
		if !sameSet(got.Added, want[i].Added) || !sameSet(got.Ended, want[i].Ended) {
			return differ(step.Outcomes, want, "holds")
		}
		want[i].Added, want[i].Ended, want[i].Detail = got.Added, got.Ended, got.Detail
		if p.chain = want[i].ChainAfter(p.chain); got.Chain != p.chain {
			return differ(step.Outcomes, want, fmt.Sprintf("outcome %d:\n%+v\ntwin:\n%+v", i, *got, want[i]))
		}
		seen.note(got)
		for _, x := range got.Writes {
			p.said = append(p.said, sequencer.Abort{Scope: x.Scope, Seq: got.Seq, Writer: got.Tx})
		}
	}
	if restore {
		if p.fold, err = sequencer.Restore(p.fold.State()); err != nil {
			return err
		}
	}
	return p.compareStates()
}

func sameSet(a, b []sequencer.Hold) bool {
	if len(a) != len(b) {
		return false
	}
	for _, h := range a {
		if !slices.Contains(b, h) {
			return false
		}
	}
	return true
}

// compareStates holds what both keep against each other, now and then.
func (p *pair) compareStates() error {
	if len(p.log)%16 != 0 {
		return nil
	}
	st := p.fold.State()
	var phases, twinPhases []string
	for i := range st.Txs {
		phases = append(phases, fmt.Sprint(st.Txs[i].ID, st.Txs[i].Phase, st.Txs[i].Owner, st.Txs[i].Past))
	}
	for _, t := range p.twin.txs {
		twinPhases = append(twinPhases, fmt.Sprint(t.id, t.phase, t.owner, t.past))
	}
	slices.SortFunc(p.twin.window, func(a, b sequencer.WindowState) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Scope, b.Scope))
	})
	w := p.twin
	same := slices.Equal(phases, twinPhases) && slices.Equal(st.Window, w.window) && st.Seq == w.seq &&
		st.Floor == w.floor && st.Horizon == w.horizon && st.Time == w.time && len(st.Groups) == len(w.groups) &&
		len(st.Joins) == len(w.joins) && st.LastEpoch == w.epoch && len(st.Retractions) == len(w.retractions) &&
		len(st.Versions) == len(w.versions) && st.Unversioned == w.unversioned && slices.Equal(st.Tombs, w.tombs)
	if same {
		return nil
	}
	return differ(nil, nil, fmt.Sprintf("states:\n%s%v\ntwin: %v %v groups %v floor %d horizon %d epoch %d",
		showState(st), phases, twinPhases, w.window, w.groups, w.floor, w.horizon, w.epoch))
}

// differ says how the outcomes of one record differ.
func differ(got, want []sequencer.Outcome, what string) error {
	var text strings.Builder
	fmt.Fprintln(&text, "---- fold")
	for i := range got {
		fmt.Fprintln(&text, script.FormatOutcome(&got[i]))
	}
	fmt.Fprintln(&text, "---- twin")
	for i := range want {
		fmt.Fprintln(&text, script.FormatOutcome(&want[i]))
	}
	return fmt.Errorf("%s---- %s", text.String(), what)
}

// shortest leaves out of a log in which fold and twin differ all that it can, and prints the rest as a script.
func shortest(log []record) string {
	why := replayPair(log)
	for i := 0; i < len(log); {
		without := slices.Delete(slices.Clone(log), i, i+1)
		if err := replayPair(without); err != nil {
			log, why = without, err
		} else {
			i++
		}
	}
	var text strings.Builder
	for _, r := range log {
		fmt.Fprintln(&text, script.Format(r.Intent))
		if r.restore {
			fmt.Fprintln(&text, "restore")
		}
	}
	return fmt.Sprintf("%s%v", text.String(), why)
}

// replayPair compares a whole log.
func replayPair(log []record) error {
	p := newPair()
	for _, r := range log {
		if err := p.compare(r.Intent, r.restore, &reached{count: map[string]int{}}); err != nil {
			return err
		}
	}
	return nil
}
