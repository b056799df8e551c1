package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/replay"
	"github.com/hence-dev/hence/sequencer/testsize"
)

// dice makes many small numbers of a seed, all equally likely (splitmix64).
type dice uint64

func (d *dice) n(k int) int {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(k))
}

// watched makes the log of a workspace that observes, and notes what it would have refused.
type watched struct {
	*dice
	fold  *sequencer.Fold
	log   replay.Log
	inc   map[string]sequencer.Seq
	open  []*working
	owed  []*working // committed, with calls to release
	count int
	apart bool // who would be refused writes only what is its own

	first *sequencer.Outcome // with a would
	would map[sequencer.TxID]bool
}

// working is a transaction on its way.
type working struct {
	id      sequencer.TxID
	agent   string
	base    sequencer.Seq
	touched []sequencer.Scope
}

func newWatched(t testing.TB, seed uint64, apart bool) *watched {
	d := dice(seed)
	w := &watched{dice: &d, fold: sequencer.New("ws"), log: replay.Log{Workspace: "ws"},
		inc: map[string]sequencer.Seq{}, apart: apart, would: map[sequencer.TxID]bool{}}
	for i := range 3 {
		agent := fmt.Sprintf("a%d", i+1)
		w.inc[agent] = w.fold.Seq() + 1
		w.give(t, &sequencer.Intent{Kind: sequencer.IntentJoin, Agent: agent,
			Join: &sequencer.Join{ID: agent, Logic: sequencer.Logic}})
	}
	rules := w.fold.State().Rules
	rules.Version, rules.Observe = 1, true
	w.give(t, &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules})
	return w
}

func (w *watched) give(t testing.TB, in *sequencer.Intent) (out []sequencer.Outcome) {
	t.Helper()
	offset := int64(len(w.log.Records))
	step, err := w.fold.Step(offset, in)
	if err != nil {
		t.Fatal(err)
	}
	w.log.Records = append(w.log.Records, replay.Record{Offset: offset, Intent: in})
	for i := range step.Outcomes {
		o := &step.Outcomes[i]
		w.log.Decided = append(w.log.Decided, replay.Decided{Seq: o.Seq, Offset: o.Offset, Chain: o.Chain})
		if o.Would != "" {
			w.would[o.Tx] = true
			if w.first == nil {
				w.first = o
			}
		}
	}
	return step.Outcomes
}

// wouldBe is what an intent would be, of a copy of the fold.
func (w *watched) wouldBe(t testing.TB, in *sequencer.Intent) (refused bool) {
	t.Helper()
	f, err := sequencer.Restore(w.fold.State())
	if err != nil {
		t.Fatal(err)
	}
	step, err := f.Step(int64(len(w.log.Records)), in)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(step.Outcomes, func(o sequencer.Outcome) bool { return o.Would != "" })
}

func (w *watched) public() sequencer.Scope {
	return sequencer.Scope([]string{"doc:/a", "doc:/b", "doc:/c", "shard:/s", "shard:/t"}[w.n(5)])
}

// move makes the next record: something begins, asks, is sealed or is settled.
func (w *watched) move(t testing.TB) {
	t.Helper()
	switch k := w.n(10); {
	case k == 0 && len(w.owed) > 0:
		x := w.owed[0]
		w.owed = w.owed[1:]
		w.give(t, &sequencer.Intent{Kind: sequencer.IntentSettle, Tx: x.id, N: 1, Agent: x.agent, Base: x.base,
			Incarnation: w.inc[x.agent], Settle: &sequencer.Settle{NoneElse: true}})
	case k < 4 && len(w.open) < 4 || len(w.open) == 0:
		w.count++
		agent := fmt.Sprintf("a%d", 1+w.n(3))
		w.open = append(w.open, &working{id: sequencer.TxID(fmt.Sprintf("T%d", w.count)), agent: agent,
			base: w.fold.Seq()})
	case k < 6:
		w.touch(t, w.open[w.n(len(w.open))])
	default:
		at := w.n(len(w.open))
		x := w.open[at]
		w.open = slices.Delete(w.open, at, at+1)
		w.seal(t, x)
	}
}

func (w *watched) touch(t testing.TB, x *working) {
	t.Helper()
	if len(x.touched) > 0 {
		return
	}
	at := sequencer.Scope("doc:/d" + string(rune('0'+w.n(5))))
	in := func() *sequencer.Intent {
		wants := []sequencer.Want{{Scope: at, Access: sequencer.WriteAccess}}
		return &sequencer.Intent{Kind: sequencer.IntentTouch, Tx: x.id, N: 1, Agent: x.agent, Base: x.base,
			Incarnation: w.inc[x.agent], Touch: &sequencer.Touch{Wants: wants}}
	}
	if w.apart && w.wouldBe(t, in()) {
		at = sequencer.Scope("doc:/own/" + string(x.id))
	}
	x.touched = []sequencer.Scope{at}
	w.give(t, in())
}

func (w *watched) seal(t testing.TB, x *working) {
	t.Helper()
	s := &sequencer.Seal{}
	in := &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: x.id, N: 1, Agent: x.agent, Base: x.base,
		Incarnation: w.inc[x.agent], Seal: s}
	for range w.n(3) {
		s.Reads = append(s.Reads, sequencer.Read{Scope: w.public(), View: max(x.base, w.fold.Seq()-sequencer.Seq(w.n(5)))})
	}
	for i := range x.touched {
		s.Effects = append(s.Effects, sequencer.Effect{Index: uint32(i), Scopes: x.touched[i : i+1],
			Class: sequencer.ClassReversible, Tool: "set", Known: true})
		s.Touches = append(s.Touches, sequencer.TouchReport{N: 1, Known: true})
	}
	plain := len(s.Effects)
	write := func(at sequencer.Scope) {
		if at.IsShard() {
			s.Shards = []sequencer.ShardWrite{{Scope: at, Type: "text/plain", Content: []byte("x")}}
		} else {
			s.Effects = append(s.Effects[:plain:plain], sequencer.Effect{Index: uint32(plain), Scopes: []sequencer.Scope{at},
				Class: sequencer.ClassIrreversible, Tool: "mail"})
		}
	}
	if w.n(3) > 0 {
		write(w.public())
	}
	if w.apart && w.wouldBe(t, in) {
		if s.Shards = nil; len(x.touched) > 0 {
			s.Reads = nil // what it ran stands where others go: it must not be refused
		}
		write(sequencer.Scope("doc:/own/" + string(x.id) + "/mail"))
	}
	for _, o := range w.give(t, in) {
		if o.Kind == sequencer.OutcomeCommitted && !o.Final {
			w.owed = append(w.owed, x)
		}
	}
}

func enforcing() replay.Change {
	observe := false
	return replay.Change{Observe: &observe}
}

// envLogs says how many random logs the tests take.
const envLogs = "HENCE_IT_REPLAY_LOGS"

func logs() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(envLogs), 10, 32); err == nil {
		return n
	}
	if testsize.Small() {
		return 60
	}
	return 200
}

// TestFirstWould: the first difference of an observing log that is decided as an enforcing one is its first would, and
// what it says.
func TestFirstWould(t *testing.T) {
	found := map[sequencer.Code]int{}
	for seed := range logs() {
		w := newWatched(t, seed, false)
		for range 60 {
			w.move(t)
		}
		res, err := replay.Run(&w.log, enforcing())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if w.first == nil {
			if len(res.Differences) > 0 {
				t.Errorf("seed %d: nothing would be refused, and %+v differs", seed, res.Differences[0])
			}
			continue
		}
		if len(res.Differences) == 0 {
			t.Fatalf("seed %d: %s would be %s, and nothing differs", seed, w.first.Tx, w.first.Would)
		}
		d := res.Differences[0]
		said := d.Now.Code
		if d.Now.Kind == "waiting" {
			said = sequencer.CodeWaiting
		}
		own := said == sequencer.CodeOwnTransaction && w.first.Would == sequencer.CodeWaiting // it waits for its own session
		if d.Tx != w.first.Tx || d.Offset != w.first.Offset || d.Then.Seq != w.first.Seq || said != w.first.Would && !own ||
			d.Cause.Why != replay.CauseRule {
			t.Errorf("seed %d: the first would is %s of %s at seq %d, the first difference %+v", seed, w.first.Would,
				w.first.Tx, w.first.Seq, d)
		}
		found[said]++
	}
	t.Logf("the first differences: %v", found)
	if len(found) < 3 {
		t.Errorf("the logs have only %v as first differences", found)
	}
}

// TestSameSets: where those that would be refused or wait write nothing that others read or overwrite, those with a
// would are those that differ.
func TestSameSets(t *testing.T) {
	same, differing := uint64(0), 0
	for seed := range logs() {
		w := newWatched(t, seed, true)
		for range 60 {
			w.move(t)
		}
		res, err := replay.Run(&w.log, enforcing())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		differ := map[sequencer.TxID]bool{}
		for _, d := range res.Differences {
			differ[d.Tx] = true
		}
		if maps.Equal(differ, w.would) {
			same++
		} else {
			t.Errorf("seed %d: would be %v, differ %v", seed, slices.Sorted(maps.Keys(w.would)),
				slices.Sorted(maps.Keys(differ)))
		}
		differing += len(differ)
	}
	t.Logf("%d of %d logs: the same sets, %d transactions in all", same, logs(), differing)
	if differing == 0 {
		t.Error("no log has a would")
	}
}

// TestNotWhole holds what is said of a log that cannot be decided again.
func TestNotWhole(t *testing.T) {
	w := newWatched(t, 1, false)
	for range 60 {
		w.move(t)
	}
	whole := w.log
	without := func(at int) *replay.Log {
		log := whole
		log.Records = slices.Delete(slices.Clone(whole.Records), at, at+1)
		return &log
	}
	otherwise := whole
	otherwise.Decided = slices.Clone(whole.Decided)
	otherwise.Decided[20].Chain[3]++
	newer := whole
	newer.Records = append(slices.Clone(whole.Records), replay.Record{Offset: 1000,
		Intent: &sequencer.Intent{Kind: sequencer.IntentRules, Rules: &sequencer.Rules{Version: 2, Logic: 99}}})
	late, cut := whole, *without(0) // the first decisions are deleted: the chain of the others is over them too
	late.Decided, cut.Decided = whole.Decided[10:], whole.Decided[10:]
	cutOff := whole // a broker has lost the last records; nothing that is left is decided otherwise
	cutOff.Records = whole.Records[:len(whole.Records)-20]
	nothing := whole
	nothing.Records = []replay.Record{{Offset: 90}}
	empty := replay.Log{Workspace: "ws"}
	for name, c := range map[string]struct {
		log  *replay.Log
		want error
	}{
		"its beginning": {without(0), replay.ErrNotWhole}, "a record in the middle": {without(30), replay.ErrNotWhole},
		"the first decisions": {&late, nil}, "these and its beginning": {&cut, replay.ErrNotWhole},
		"its end": {&cutOff, replay.ErrNotWhole}, "what can be read": {&nothing, replay.ErrNotWhole},
		"all": {&empty, replay.ErrNotWhole}, "a decision": {&otherwise, replay.ErrOtherLogic},
		"the logic": {&newer, replay.ErrOtherLogic},
	} {
		if _, err := replay.Run(c.log, replay.Change{}); !errors.Is(err, c.want) {
			t.Errorf("without %s: %v, want %v", name, err, c.want)
		}
	}
	if res, err := replay.Run(&whole, replay.Change{}); err != nil || len(res.Differences) > 0 ||
		res.Chain != res.NowChain {
		t.Errorf("whole: %v, %+v", err, res)
	}
}

// BenchmarkReplay decides a log of 20,000 moves again. It prints how much differs.
func BenchmarkReplay(b *testing.B) {
	w := newWatched(b, 1, false)
	for range 20_000 {
		w.move(b)
	}
	for b.Loop() {
		res, err := replay.Run(&w.log, enforcing())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(res.Differences)), "differences")
		b.ReportMetric(float64(res.Records), "records")
	}
}
