package gates

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
)

// retractAgents is how many agents tell the stories.
const retractAgents = 4

// TestRetractions retracts chains, fan-outs and mixtures of 2 to 16 transactions with overwriters among them and open
// transactions above them: sinks and shards end as if they had never run, and what had left for good is listed.
func TestRetractions(t *testing.T) {
	const workers = 5
	rounds := harness.Number(t, "HENCE_IT_RETRACTIONS", harness.OnReal(20, harness.Sample(40)))
	d, shop, e := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t), harness.NewErrands()
	sidecars := shop.Sidecars(t, d, retractAgents)
	told, whole := make([]*retold, rounds), make([]bool, rounds)
	harness.Share(t, workers, rounds, func(ctx context.Context, _, round int) error {
		r := newRetold(sidecars, e, shop, round)
		told[round] = r
		n, shape := 2+round%15, []string{"chain", "fan", "mixed"}[round/15%3]
		err := r.tell(ctx, shape, n)
		if err == nil && round%2 == 0 {
			err = r.hold(ctx, n)
		}
		if err == nil {
			err = r.retracted(ctx, r.root())
		}
		if err != nil {
			return fmt.Errorf("round %d, a %s of %d in %s: %w", round, shape, n, r.mode, err)
		}
		whole[round] = true
		return nil
	})
	good, members, bystanders, holders := 0, 0, 0, 0
	for i, r := range told {
		if whole[i] {
			good++
		}
		members += len(r.cone)
		bystanders += len(r.story) - len(r.cone)
		holders += len(r.holders)
	}
	leaked := settledWorld(t, d, shop, told)
	t.Logf("%d of %d retractions: %d transactions undone beside %d that stand, %d open ones refused, %d calls had left "+
		"and are listed", good, rounds, members, bystanders, holders, leaked)
	if leaked == 0 || holders == 0 {
		t.Error("nothing had left, or nothing was held: nothing was put to the test")
	}
}

// TestRetractionsQueue retracts two transactions at once, whose cones are apart, meet, or hold one another.
func TestRetractionsQueue(t *testing.T) {
	rounds := harness.Number(t, "HENCE_IT_RETRACTION_PAIRS", harness.OnReal(6, harness.Sample(12)))
	d, shop, e := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t), harness.NewErrands()
	sidecars := shop.Sidecars(t, d, retractAgents)
	told := make([]*retold, rounds)
	harness.Share(t, 1, rounds, func(ctx context.Context, _, round int) error {
		r := newRetold(sidecars, e, shop, round)
		told[round] = r
		n := 3 + round%6
		err := r.tell(ctx, []string{"mixed", "fan"}[round%2], n)
		other := r.story[len(r.story)-1-r.rng.IntN(n)]
		if err == nil {
			err = r.retracted(ctx, r.root(), other.name)
		}
		if err != nil {
			return fmt.Errorf("round %d, %d transactions, of which %s is the second root: %w", round, n, other.name, err)
		}
		return nil
	})
	leaked := settledWorld(t, d, shop, told)
	t.Logf("%d pairs of retractions, %d calls had left and are listed", rounds, leaked)
}

// TestRetractionOfTheGone retracts what sidecars did that are gone: one that needs the scopes adopts and undoes it.
func TestRetractionOfTheGone(t *testing.T) {
	d, shop, e := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t), harness.NewErrands()
	shop.MaxTime = 300 * time.Millisecond
	cfg := sidecar.Config{Tools: shop.Tools(t), Limits: sidecar.Limits{AdoptAfter: 200 * time.Millisecond,
		RenewEvery: 500 * time.Millisecond}}
	stays := d.SidecarsWith(t, 1, cfg)
	shortLease(t, stays[0])
	cfg.Agent = "goes"
	goes := d.SidecarWith(t, cfg)
	r := newRetold([]*harness.Sidecar{stays[0], goes}, e, shop, 0)
	if err := r.tell(t.Context(), "chain", 8); err != nil {
		t.Fatal(err)
	}
	goes.Stop()
	r.sidecars = stays
	needs, err := stays[0].Client.Begin(t.Context(), client.BeginOptions{Mode: "ordered"})
	if err != nil {
		t.Fatal(err)
	}
	r.cone = r.story.cone(r.root())
	if _, err := stays[0].Client.Retract(t.Context(), r.story.named(r.root()), "", false); err != nil {
		t.Fatal(err)
	}
	needer := &attempt{life: &life{name: "r0-needs"}, retold: r, on: needs}
	for i := range 8 {
		if err := needer.writeShard(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	_, errSeal := needs.Seal(t.Context())
	if _, err := undone(t.Context(), stays[0], r.story.named(r.root())); err != nil {
		t.Fatalf("%v; the one that needs its scopes: %v", err, errSeal)
	}
	if _, err := e.Over(t.Context(), needs); err != nil {
		t.Fatal(err)
	}
	leaked := settledWorld(t, d, shop, []*retold{r})
	for scope, want := range r.story.without(r.cone) {
		if name, isFile := strings.CutPrefix(scope, "file:/"); isFile && shop.File(t, name) != want {
			t.Errorf("%s holds %q: want %q", scope, shop.File(t, name), want)
		}
	}
	t.Logf("%d transactions undone, of them those of a sidecar that is gone; %d calls had left", len(r.cone), leaked)
}

// shortLease lets leases end soon.
func shortLease(t *testing.T, s *harness.Sidecar) {
	t.Helper()
	now, err := s.Client.Rules(t.Context())
	ticks := uint32(20)
	if err == nil {
		_, err = s.Client.SetRules(t.Context(), now.Version, client.RulesChange{LeaseTicks: &ticks})
	}
	if err != nil {
		t.Fatal(err)
	}
}
