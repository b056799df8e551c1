package agent

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// slowLog is a log whose brokers take a while to acknowledge.
type slowLog struct {
	Log
	takes time.Duration
}

func (l slowLog) Append(ctx context.Context, workspace string, in *sequencer.Intent) (int64, error) {
	view.Sleep(ctx, l.takes)
	return l.Log.Append(ctx, workspace, in)
}

func (l slowLog) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	time.AfterFunc(l.takes, func() { l.Log.PublishAsync(events, done) })
}

// BenchmarkEffects is what a tool call adds to a transaction: a held one to its answer, over a log in memory, and an
// eager one over brokers that take 5 ms, compared with one append and its decision: the floor of all that needs one.
func BenchmarkEffects(b *testing.B) {
	for tool, takes := range map[string]time.Duration{"mail": 0, "set": 5 * time.Millisecond} {
		b.Run(tool, func(b *testing.B) {
			world := newSink()
			s, err := assemble(setup{Agent: "a", DataDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler),
				Tools: &testTools{sink: world, maxTime: time.Second}}, slowLog{newLog().Door(), takes})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			<-s.Ready()
			c := client.New(s.URL(), s.Token())
			var calls, floor []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := s.session.ping(ctx); err != nil {
					b.Fatal(err)
				}
				floor = append(floor, time.Since(began))
				calls = append(calls, benchCall(ctx, b, c, tool))
			}
			b.ReportMetric(float64(median(calls).Microseconds()), "call-µs")
			b.ReportMetric(float64(median(floor).Microseconds()), "floor-µs")
			b.ReportMetric(float64(median(calls))/float64(median(floor)), "ratio")
			c.Close()
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// benchCall is how long one call takes to be answered; its transaction is ended afterwards.
func benchCall(ctx context.Context, b *testing.B, c *client.Client, tool string) time.Duration {
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if _, err := tx.Effect(ctx, tool, at{At: tx.ID()}, client.EffectOptions{}); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if _, err := tx.Seal(ctx); err != nil {
		b.Fatal(err)
	}
	return took
}

// ping is one append and its decision.
func (s *Agent) ping(ctx context.Context) error {
	return inside(s, func() error {
		in, before := s.probe(), s.view.At()
		if _, err := s.append(ctx, in); err != nil {
			return err
		}
		return s.reach(ctx, before+1)
	})
}
