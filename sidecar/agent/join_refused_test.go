package agent

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/view"
)

// joins are the joins of an agent in the log.
func joins(log *memlog.Log, agent string) (out []*sequencer.Intent) {
	for _, in := range log.Intents() {
		if in.Kind == sequencer.IntentJoin && in.Agent == agent {
			out = append(out, in)
		}
	}
	return out
}

// TestJoinRefused holds that a sidecar that the log does not let in says so in its answers, goes on, asks again after
// pauses that grow, whatever its agent sends meanwhile, and is let in at last.
func TestJoinRefused(t *testing.T) {
	log := newLog()
	must(log.Say(sequencer.Outcome{Kind: sequencer.OutcomeLeaseEnded, Agent: "z", Incarnation: 1}))(t)
	a := launch(t, "a", log.Door(), nil)
	ctx := background(t)
	const full = "the workspace has 2 live sidecars, as many as its rules allow"
	var refused time.Time
	seen := map[string]bool{}
	for n := 1; n <= 3; n++ {
		if err := log.Until(ctx, func() bool { return len(joins(log, "a")) >= n }); err != nil {
			t.Fatalf("join %d: %v", n, err)
		}
		if least := view.PauseMost << n >> 2; n > 1 && time.Since(refused) < least {
			t.Errorf("join %d comes %s after a refusal, want %s at least", n, time.Since(refused), least)
		}
		in := joins(log, "a")[n-1]
		if seen[in.Join.ID] {
			t.Errorf("join %d asks under a name that has its answer", n)
		}
		seen[in.Join.ID] = true
		if n == 3 {
			break
		}
		refused = time.Now()
		must(log.Say(sequencer.Outcome{Kind: sequencer.OutcomeRefused, Agent: "a", Intent: in.ID(), Retryable: true,
			Code: sequencer.CodeLimit, Detail: full}))(t)
		if err := a.view.Reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
		if err := a.Refused(); err == nil || !strings.Contains(err.Error(), full) {
			t.Errorf("it is refused with %v", err)
		}
		for range 5 {
			status, p, _ := a.send(t, get(inDefault+"/shards/x"))
			if status != http.StatusTooManyRequests || p.Code != api.CodeLimit || !strings.Contains(p.Detail, full) {
				t.Errorf("a request is answered %d %+v", status, p)
			}
		}
		parts := a.session.Health().Parts
		if err := parts["session"]; api.AsProblem(err).Code != api.CodeLimit || !strings.Contains(err.Error(), full) {
			t.Errorf("readyz says %v", err)
		}
		if got := len(joins(log, "a")); got != n && time.Since(refused) < view.PauseMost {
			t.Errorf("%d joins after %d refusals", got, n)
		}
	}
	in := joins(log, "a")[2]
	must(log.Say(sequencer.Outcome{Kind: sequencer.OutcomeJoined, Agent: "a", Intent: in.ID(),
		Incarnation: log.Seq() + 1}))(t)
	select {
	case <-a.Ready():
	case <-ctx.Done():
		t.Fatal("it is let in and not ready")
	}
	if err := a.Refused(); err != nil {
		t.Errorf("let in, and still refused: %v", err)
	}
	if err := inside(a.session, func() error { return a.session.health() }); err != nil {
		t.Errorf("let in: %v", err)
	}
}
