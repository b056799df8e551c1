package costlaw_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/costlaw"
	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/sidecar/client"
)

func TestMain(m *testing.M) {
	// One goroutine of sarama's metrics for the whole process.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// agentsOf starts Hence with embedded servers and returns a client of each agent.
func agentsOf(t *testing.T, n int) (all []*client.Client) {
	t.Helper()
	g, err := ground.Start(t.Context(), ground.Options{Name: "costlaw-test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("agent%d", i))
	}
	doors, err := g.Doors(t.Context(), "w", false, names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, door := range doors {
		c := client.New(door.URL, door.Token, client.WithWorkspace("w"))
		t.Cleanup(c.Close)
		all = append(all, c)
	}
	return all
}

// TestHence holds that Hence refuses over HTTP in each session exactly the commits that a serializable runtime refuses
// of the same session, and so costs the same; HENCE_COSTLAW_ALL=1 has all nine shapes with thirty seeds, and fits the
// law to what was measured.
func TestHence(t *testing.T) {
	full := os.Getenv("HENCE_COSTLAW_ALL") == "1"
	shapes, sessions := []costlaw.Shape{{2, 1}, {8, 1}, {8, 8}}, 3
	if full {
		shapes, sessions = costlaw.Shapes(), seeds
	}
	agents := agentsOf(t, 16)
	hence, err := costlaw.Measure(t.Context(), shapes, sessions, costlaw.Own,
		func(s costlaw.Shape, seed uint64) (costlaw.Store, error) {
			return costlaw.NewHence(agents, fmt.Sprintf("w%d-c%d-s%d", s.Agents, s.Cells, seed)), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	model, err := costlaw.Measure(t.Context(), shapes, sessions, costlaw.Own, on(runtimes.Serializable))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0.0
	for i, p := range hence {
		refused += p.Aborts
		if p != model[i] {
			t.Errorf("Hence %+v, a serializable runtime %+v", p, model[i])
		}
	}
	if refused == 0 {
		t.Error("nothing was refused: there is nothing to compare")
	}
	fit := costlaw.Fitted(hence)
	t.Logf("%d sessions: %+v", len(hence), fit)
	if full && !holds(fit) {
		t.Errorf("%+v", fit)
	}
}
