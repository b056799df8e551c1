package stand

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables"
	"github.com/hence-dev/hence/cmd/hence/internal/cluster"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// Sidecars is part of tables.Sidecars. The processes run this program, and are told by their input when it ends.
func (s *Stand) Sidecars(ctx context.Context, nodes, agents int, rules string) (place tables.Place,
	sides []tables.Side, err error) {
	if s.ground == nil {
		if err := s.start(ctx); err != nil {
			return place, nil, err
		}
	}
	s.made++
	name := fmt.Sprint("tables-", s.made)
	cfg := cluster.Config{Streams: s.ground.Servers, Dir: filepath.Join(s.Dir, name), Announce: io.Discard}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return place, nil, fmt.Errorf("make a folder for sidecars: %w", err)
	}
	if cfg.Program, err = os.Executable(); err != nil {
		return place, nil, fmt.Errorf("find the program of sidecars: %w", err)
	}
	if rules != "" {
		cfg.Policy = filepath.Join(cfg.Dir, "policy.yaml")
		if err := os.WriteFile(cfg.Policy, []byte(rules), 0o600); err != nil {
			return place, nil, fmt.Errorf("write the policy of a row: %w", err)
		}
	}
	all := cluster.Sidecars(cfg)
	s.sides.Go(func() {
		select {
		case <-ctx.Done():
		case <-s.serving.Done(): // the row has not ended its context
		}
		all.Close()
	})
	doors, errs := make([][]cluster.Door, nodes), make([]error, nodes)
	var starting sync.WaitGroup
	for n := range nodes {
		var names []string
		for i := range agents {
			names = append(names, fmt.Sprintf("agent-%d-%d", n, i))
		}
		starting.Go(func() { doors[n], errs[n] = all.Sidecar(ctx, name, names...) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return place, nil, fmt.Errorf("start sidecars: %w", err)
	}
	for _, of := range doors {
		for _, d := range of {
			place.Agents = append(place.Agents, client.New(d.URL, d.Token, client.WithWorkspace(name)))
		}
		sides = append(sides, &side{all: all, address: of[0].URL})
	}
	return place, sides, nil
}

// side is one of the processes.
type side struct {
	all     cluster.Cluster
	address string
	told    int // the process that was signalled last
}

// pid is the process that serves now; zero: none does.
func (s *side) pid() int {
	for _, child := range s.all.Running() {
		if child.Address == s.address {
			return child.PID
		}
	}
	return 0
}

// Signal is part of tables.Side.
func (s *side) Signal(signal syscall.Signal) error {
	if s.told = s.pid(); s.told == 0 {
		return errors.New("the sidecar to be signalled does not run")
	}
	if err := syscall.Kill(s.told, signal); err != nil {
		return fmt.Errorf("signal process %d: %w", s.told, err)
	}
	return nil
}

// Back is part of tables.Side.
func (s *side) Back(ctx context.Context) error {
	for now := s.pid(); now == 0 || now == s.told; now = s.pid() {
		select {
		case err := <-s.all.Failed():
			return err
		default:
		}
		if err := pause.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
