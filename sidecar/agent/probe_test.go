package agent

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/feed"
)

// Idle sidecars make sure of their leases, each of them over four: nothing of it is a refusal, and a stream of
// decisions shows none of it unless it is asked to. A log of logic 2 only has a refusal for it; a stream knows that.
func TestProbesAreQuiet(t *testing.T) {
	for _, c := range []struct {
		logic uint32
		kind  sequencer.OutcomeKind
	}{{2, sequencer.OutcomeRefused}, {sequencer.Logic, sequencer.OutcomeConfirmed}} {
		log := newLog()
		must(log.Add(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "z",
			Join: &sequencer.Join{ID: "first", Logic: c.logic}}))(t)
		var all []*rig
		var clocks []*fakeClock
		for _, agent := range []string{"a", "b", "c"} {
			clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
			all = append(all, startWith(t, agent, log.Door(), func(c *setup) { c.Machine.Clock = clock }))
			clocks = append(clocks, clock)
		}
		const leases = 4
		for range leases {
			for i, r := range all {
				clocks[i].advance(10 * time.Second)
				clocks[i].advance(0)
				if err := inside(r.session, func() error {
					return r.session.stretchLease(background(t), 7*time.Second)
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		probes := 0
		for _, o := range log.Outcomes() {
			switch {
			case feed.Quiet(o):
				probes++
				if o.Kind != c.kind || o.Kind == sequencer.OutcomeConfirmed && (o.Tx != "" || o.Code != "" || o.Incarnation == 0) {
					t.Errorf("logic %d: a probe is answered with %+v", c.logic, o)
				}
			case o.Kind != sequencer.OutcomeJoined:
				t.Errorf("logic %d: %s %s of %s", c.logic, o.Kind, o.Code, o.Agent)
			}
		}
		if probes < leases*len(all) {
			t.Errorf("logic %d: %d probes", c.logic, probes)
		}
		commit(t, all[0], "x")
		for query, hidden := range map[string]bool{"?after=0": true, "?after=0&all=true": false} {
			text := upTo(t, bufio.NewReader(watch(t, all[0], query).Body), "event: committed")
			if got := !strings.Contains(text, "event: "+c.kind.String()+"\n"); got != hidden {
				t.Errorf("logic %d, %s: hidden %v:\n%s", c.logic, query, got, text)
			}
		}
	}
}

// A renewal that the log has taken after the lease's end counts for nothing, also where the view does not show the end
// yet; nor does the answer to the question behind it.
func TestProbeOfADeadLease(t *testing.T) {
	log := newLog()
	door := log.Door()
	clock := &fakeClock{now: time.Unix(1e9, 0), beat: make(chan time.Time)}
	a := startWith(t, "a", door, func(c *setup) { c.Machine.Clock = clock }, func(c *setup) {
		c.Limits.SessionWait = 500 * time.Millisecond // the question is in the log by then
	})
	clock.advance(10 * time.Second)
	clock.advance(0)
	door.Hold()
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: "a", Join: &sequencer.Join{ID: "elsewhere"}}))(t)
	if err := inside(a.session, func() error {
		return a.session.stretchLease(background(t), time.Second)
	}); err == nil {
		t.Error("a lease that is over lasts on, before the view shows anything")
	}
	last := log.Outcomes()[len(log.Outcomes())-1]
	if last.Kind != sequencer.OutcomeRefused || last.Code != sequencer.CodeLeaseExpired || last.Tx != "" {
		t.Errorf("the question is answered with %+v", last)
	}
	door.Release()
	if err := a.view.Reach(background(t), last.Seq); err != nil {
		t.Fatal(err)
	}
	if left := a.session.lease.Left(); left != 0 {
		t.Errorf("%v left of a lease that is over", left)
	}
}
