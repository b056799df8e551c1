package sequencer

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"
)

// benchLog makes intents as a busy workspace has them: one-record transactions of 8 sidecars that read two shards and
// write one, watermarks in between, and now and then one that is stale.
type benchLog struct {
	fold   *Fold
	offset int64
	joined []Seq
	agents []string
	scopes []Scope
	n      int
}

func newBenchLog(logic uint32) *benchLog {
	l := &benchLog{fold: New("bench")}
	for i := range 8 {
		l.agents = append(l.agents, fmt.Sprintf("a%d", i))
		s := l.step(&Intent{Kind: IntentJoin, Agent: l.agents[i], Join: &Join{ID: fmt.Sprintf("j%d", i), Logic: logic}})
		l.joined = append(l.joined, s.Outcomes[0].Seq)
	}
	for i := range 1000 {
		l.scopes = append(l.scopes, Scope(fmt.Sprintf("shard:/orders/%d", i)))
	}
	return l
}

func (l *benchLog) step(in *Intent) Step {
	s, err := l.fold.Step(l.offset, in)
	if err != nil {
		panic(err)
	}
	l.offset++
	return s
}

func (l *benchLog) next() *Intent {
	l.n++
	a := l.n % len(l.joined)
	head := l.fold.Seq()
	agent := l.agents[a]
	if l.n%10 == 0 {
		return &Intent{Kind: IntentWatermark, Agent: agent, Incarnation: l.joined[a], Watermark: &Watermark{Seq: head}}
	}
	view := head - min(head, Seq(l.n%3))
	r := func(k int) Read {
		return Read{Scope: l.scopes[k%len(l.scopes)], View: view}
	}
	return &Intent{Kind: IntentSeal, Tx: TxID("t" + strconv.Itoa(l.n)), N: 1, Agent: agent, Incarnation: l.joined[a],
		Base: view, Seal: &Seal{Reads: []Read{r(l.n * 7), r(l.n * 13)},
			Shards: []ShardWrite{{Scope: r(l.n * 7).Scope, Content: []byte(`{"status":"pending"}`)}}}}
}

// timed makes the next intent and returns how long the fold took over it.
func (l *benchLog) timed() time.Duration {
	in := l.next()
	began := time.Now()
	l.step(in)
	return time.Since(began)
}

// BenchmarkFold reports the fold's own time for an event; ns/op has the making of the intent too.
func BenchmarkFold(b *testing.B) {
	for _, at := range []struct {
		past  int
		logic uint32
	}{{1_000, 1}, {1_000, 2}, {1_000_000, 2}} {
		b.Run(fmt.Sprintf("past=%d/logic=%d", at.past, at.logic), func(b *testing.B) {
			l := newBenchLog(at.logic)
			for range at.past {
				l.step(l.next())
			}
			var spent time.Duration
			b.ReportAllocs()
			for b.Loop() {
				spent += l.timed()
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "fold-ns/event")
		})
	}
}

// BenchmarkFoldRatio steps a fold with a short past and one with a long past in turns, so that a busy machine slows
// both, and reports the ratio of their times: the cost of a step must not depend on how much ever happened.
func BenchmarkFoldRatio(b *testing.B) {
	short, long := newBenchLog(Logic), newBenchLog(Logic)
	for range 1_000 {
		short.step(short.next())
	}
	for range 1_000_000 {
		long.step(long.next())
	}
	const turn = 512
	spent := func(l *benchLog) (sum time.Duration) {
		for range turn {
			sum += l.timed()
		}
		return sum
	}
	var ratios []float64
	for b.Loop() {
		ratios = append(ratios, float64(spent(long))/float64(spent(short)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "long/short")
}
