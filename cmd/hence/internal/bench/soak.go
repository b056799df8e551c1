package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/usage"
	"github.com/hence-dev/hence/sidecar/client"
)

// SoakConfig says for how long to load what, and how much. Of Config it takes the servers, the clients with their
// turns, and Runs and For, by which the ceiling is found.
type SoakConfig struct {
	Config
	Lasts time.Duration
	From  time.Duration // slopes are taken from then on; 0: ten minutes, or a third of a shorter run
	Share float64       // of the ceiling
	Every time.Duration // between two samples
}

// from is when slopes begin.
func (c *SoakConfig) from() time.Duration { return cmp.Or(c.From, min(10*time.Minute, c.Lasts/3)) }

// Validate says what is wrong with the configuration and what to do about it.
func (c *SoakConfig) Validate() error {
	if c.From >= c.Lasts {
		return errors.New("slopes are taken of what comes later: give a smaller --from, or more --minutes")
	}
	if n := int((c.Lasts - c.from()) / max(c.Every, 1)); n < soakSamples {
		return fmt.Errorf("%d samples after --from show no slope: give at least %d, by more --minutes or a smaller --every",
			n, soakSamples)
	}
	return c.validGround()
}

// soakSamples is how many samples a slope needs.
const soakSamples = 5

// Soak loads one sidecar, or one for each agent, with a share of what it takes, and looks what stays as it is.
func Soak(ctx context.Context, cfg SoakConfig) (*report.Soak, error) {
	cfg.From = cfg.from()
	if cfg.Sidecars == "" {
		cfg.Sidecars = One
	}
	b := newBench(cfg.Config)
	b.out = new(report.Report) // of notes only
	out := &report.Soak{Began: time.Now(), Program: cfg.Version, Machine: machine(), Servers: cfg.servers(),
		From: cfg.From.Seconds()}
	err := b.on(ctx, cfg.Sidecars, nil, func(ctx context.Context, g *ground.Ground) error {
		probe, _, end, err := b.loop(ctx, g, probeInFlight)
		if err != nil {
			return err
		}
		defer end()
		agents, err := b.agentsOn(ctx, g, b.Sidecars == Each, nil, or(b.Agents, 8)[0])
		if err != nil {
			return err
		}
		s := &soak{bench: b, told: cfg, ground: g, out: out, clients: sessions(agents, or(b.Clients, 32)[0])}
		return s.run(ctx, probe)
	})
	b.clear()
	return out, err
}

// soak is one load that goes on.
type soak struct {
	*bench
	told    SoakConfig
	ground  *ground.Ground
	out     *report.Soak
	clients []*client.Client

	mu     sync.Mutex
	window []float64                // times of turns since the last sample
	late   []float64                // of those that ended after From
	used   map[string]time.Duration // processor time, by group, at the last sample
	seen   time.Time                // when that was
}

func (s *soak) run(ctx context.Context, probe func(context.Context) (float64, error)) error {
	turn := s.turn(&work{clients: s.clients, shard: anyOf(or(s.Shards, 64)[0])})
	before, err := probe(ctx)
	if err != nil {
		return err
	}
	if err := s.findCeiling(ctx, turn); err != nil {
		return err
	}
	if err := s.rest(ctx); err != nil {
		return err
	}
	if err := s.load(ctx, turn); err != nil {
		return err
	}
	after, err := probe(ctx)
	if s.out.Whole = err == nil && before > 0 && after > 0; s.out.Whole {
		s.out.Drift = report.Drift(before, after)
	}
	return err
}

// findCeiling finds how many turns a second the clients get when each begins one after the other.
func (s *soak) findCeiling(ctx context.Context, turn load.Turn) error {
	var rates []float64
	for i := range s.Runs {
		s.say("soak: looking for the ceiling, run %d of %d", i+1, s.Runs)
		got, err := s.warmed(ctx, load.Spec{Workers: len(s.clients), For: s.For}, turn)
		if err != nil {
			return fmt.Errorf("find the ceiling: %w", err)
		}
		rates = append(rates, got.Rate())
	}
	s.out.Ceiling = report.Median(rates)
	s.out.Rate = s.out.Ceiling * s.told.Share
	return nil
}

// load begins turns at the rate, and takes samples meanwhile.
func (s *soak) load(ctx context.Context, turn load.Turn) error {
	if err := s.sample(ctx, 0); err != nil { // what was used until now
		return err
	}
	s.out.At, s.out.Series, s.window = nil, nil, nil
	ctx, cancel := context.WithCancelCause(ctx)
	begin := time.Now()
	var sampling sync.WaitGroup
	sampling.Go(func() {
		beat := time.NewTicker(s.told.Every)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
			}
			at := time.Since(begin)
			s.say("soak: %s of %s, %s turns/s", at.Round(time.Second), s.told.Lasts, report.Number(s.out.Rate))
			if err := s.sample(ctx, at); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		}
	})
	got, err := load.Run(ctx, load.Spec{Workers: len(s.clients), For: s.told.Lasts, Rate: s.out.Rate,
		Done: func(whole time.Duration) { s.done(load.Milliseconds(whole), time.Since(begin)) }}, turn)
	cancel(nil)
	sampling.Wait()
	s.out.Turns, s.out.Refused, s.out.Seconds = got.Turns, got.Refused, got.Took.Seconds()
	slices.Sort(s.late)
	s.out.P50, s.out.P99 = report.Quantile(s.late, 0.5), report.Quantile(s.late, 0.99)
	s.out.Judge()
	return err
}

// done takes the time of a turn.
func (s *soak) done(took float64, at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window = append(s.window, took)
	if at >= s.told.From {
		s.late = append(s.late, took)
	}
}

// sample looks at all processes, and at the turns since the last sample. It notes all of them or none.
func (s *soak) sample(ctx context.Context, at time.Duration) error {
	s.mu.Lock()
	turns := s.window
	s.window = nil
	s.mu.Unlock()
	slices.Sort(turns)
	passed := time.Since(s.seen).Seconds() // a busy machine is late
	s.seen = time.Now()
	all := []value{{"load", report.Rate, false, float64(len(turns)) / passed},
		{"load", report.P50, false, report.Quantile(turns, 0.5)}, {"load", report.P99, true, report.Quantile(turns, 0.99)}}
	for _, look := range []func() ([]value, error){
		func() ([]value, error) { return s.kept(ctx, "sidecars", ground.RoleSidecar) },
		func() ([]value, error) { return s.kept(ctx, "processors", ground.RoleProcessors) },
		s.disk,
		func() ([]value, error) { return s.cpu(passed) },
	} {
		more, err := look()
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	s.out.At = append(s.out.At, at.Seconds())
	for _, v := range all {
		s.out.Add(v.of, v.name, v.judged, v.is)
	}
	return nil
}

// value is one of a sample.
type value struct {
	of, name string
	judged   bool
	is       float64
}

// kept is what the processes of a role have.
func (s *soak) kept(ctx context.Context, of, role string) ([]value, error) {
	resident, descriptors := 0.0, 0.0
	for _, pid := range s.ground.Children(role) {
		bytes, err := usage.Memory(pid)
		if err != nil {
			return nil, err
		}
		open, err := usage.Descriptors(pid)
		if err != nil {
			return nil, err
		}
		resident, descriptors = resident+float64(bytes)/mega, descriptors+float64(open)
	}
	goroutines, err := s.ground.Goroutines(ctx, role)
	if err != nil {
		return nil, err
	}
	return []value{{of, "resident MB", true, resident}, {of, "goroutines", true, float64(goroutines)},
		{of, "open files and sockets", true, descriptors}}, nil
}

func (s *soak) disk() ([]value, error) {
	bytes, err := s.ground.SidecarDisk()
	return []value{{"sidecars", "disk MB", true, float64(bytes) / mega}}, err
}

// cpu is the processor time since the last sample, so many seconds ago.
func (s *soak) cpu(passed float64) (values []value, err error) {
	var seen bool
	groups := s.groups(s.ground, &seen)
	all, err := usageOf(groups)
	if err != nil {
		return nil, err
	}
	used := map[string]time.Duration{}
	for i, group := range groups {
		used[group.Name] = all[i].Since(nil)
		spent := (used[group.Name] - s.used[group.Name]).Seconds() * 1e3 / passed
		values = append(values, value{group.Name, "CPU ms/s", false, spent})
	}
	s.used = used
	return values, nil
}
