package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// tailCmd is the configuration of "hence tail".
type tailCmd struct {
	servers
	logging
	output
	tailFilter
	Workspace string `default:"default" dev:"workspace" help:"Workspace to follow."`
	After     uint64 `default:"0" help:"Start after this seq; 0 starts with the first decision."`
	Limit     uint64 `default:"0" help:"Stop after this many decisions; 0 goes on until interrupted."`
}

// Help is what "hence tail --help" says beyond the flags.
func (c *tailCmd) Help() string {
	return `Shown are outcomes: commits, aborts, refusals, residue, retractions, sidecars that come and go, tools and
rules. With --all, --kind or --tx also what leads to them: transactions that begin, grants, waits, settlements that are
clean, turns of a retraction, and sidecars that only make sure of their lease.

The time is that at which the log took the request that is decided.`
}

// Validate refuses filters that are none, before anything is connected to.
func (c *tailCmd) Validate() error {
	if _, err := c.filter(); err != nil {
		return err
	}
	_, err := c.from(time.Now())
	return err
}

// Decision is one line of "hence tail -o json". It is no record of hence.decisions, which topology reads and writes:
// it is flat, for scripts, has what people ask for, and the way by which it came.
type Decision struct {
	Workspace string   `json:"workspace"`
	Seq       uint64   `json:"seq"`            // position in commit order, 1-based, contiguous per workspace
	Time      string   `json:"time,omitempty"` // when the log took the request that is decided, RFC 3339; for people
	Kind      string   `json:"kind"`
	Tx        string   `json:"tx,omitempty"`
	Agent     string   `json:"agent,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	Code      string   `json:"code,omitempty"`
	Detail    string   `json:"detail,omitempty"`
	Scope     string   `json:"scope,omitempty"` // where the code was found
	MovedSeq  uint64   `json:"moved_seq,omitempty"`
	MovedBy   string   `json:"moved_by,omitempty"`
	By        string   `json:"by,omitempty"`    // sidecar: scope and what moved are as the sidecar saw them
	Tool      string   `json:"tool,omitempty"`  // of phantom_tool: server/name
	Floor     uint64   `json:"floor,omitempty"` // of too_old: what is older is forgotten
	BlockedBy []string `json:"blocked_by,omitempty"`
	Retryable bool     `json:"retryable"`
	Would     string   `json:"would,omitempty"`
	Writes    []string `json:"writes,omitempty"`
	Chain     string   `json:"chain"` // hash over all decisions so far
	Way       string   `json:"way"`   // how it came: nats, jetstream or kafka
}

// awayEvery is how often it is asked what of the cluster can be used.
const awayEvery = 2 * time.Second

var errEnough = errors.New("enough")

// Run prints decisions until the context ends.
func (c *tailCmd) Run(ctx context.Context, s Streams) error {
	if err := topology.ValidWorkspace(c.Workspace); err != nil {
		return fmt.Errorf("--workspace: %w", err)
	}
	filter, err := c.filter()
	if err != nil {
		return misused(err)
	}
	from, err := c.from(time.Now())
	if err != nil {
		return misused(err)
	}
	client, err := streams.Dial(ctx, c.config(c.logger(s.Err)))
	if err != nil {
		return fmt.Errorf("connect to %v and %s: %w", c.Brokers, c.NATS, err)
	}
	defer client.Close()
	seen := uint64(0)
	defer sayWhatIsAway(ctx, client, s.Err)()
	after, err := from.seq(ctx, client, c.Workspace)
	if err != nil {
		return err
	}
	lines := tailLines{w: s.Out, colour: colourful(s.Out), now: time.Now}
	if !c.json() {
		if err := lines.head(); err != nil {
			return err
		}
	}
	err = client.FollowAt(ctx, c.Workspace, after, func(o *sequencer.Outcome, way streams.Way, at time.Time) error {
		if !filter.Match(o) || !c.shows(o) {
			return nil
		}
		err := c.print(s.Out, decisionOf(o, way, at), func(io.Writer) error { return lines.write(o, at) })
		if err != nil {
			return err
		}
		if seen++; seen == c.Limit {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough) || ctx.Err() != nil:
		return nil
	case errors.Is(err, streams.ErrGone):
		return fmt.Errorf("follow %s: %w: begin later, with --since 1h or a greater --after", c.Workspace, err)
	}
	return fmt.Errorf("follow %s: %w", c.Workspace, err)
}

// sayWhatIsAway writes, each time that it changes, which part of the cluster cannot be used, until the returned
// function is called.
func sayWhatIsAway(ctx context.Context, client *streams.Client, w io.Writer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		ticker := time.NewTicker(awayEvery)
		defer ticker.Stop()
		for said := ""; ; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if away := whatIsAway(ctx, client); away != said && ctx.Err() == nil {
				said = away
				_ = plainly(w, "hence tail: %s\n", cmp.Or(away, "everything can be used again")) // said again when it changes
			}
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}
}

func whatIsAway(ctx context.Context, client *streams.Client) string {
	ctx, cancel := context.WithTimeout(ctx, awayEvery)
	defer cancel()
	var away []string
	parts := client.Ready(ctx)
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if err := parts[part]; err != nil {
			away = append(away, fmt.Sprintf("%s: %v", part, err))
		}
	}
	return strings.Join(away, "; ")
}

func decisionOf(out *sequencer.Outcome, way streams.Way, at time.Time) Decision {
	d := Decision{
		Workspace: out.Workspace, Seq: uint64(out.Seq), Kind: out.Kind.String(), Tx: string(out.Tx), Agent: out.Agent,
		Code: string(out.Code), Detail: out.Detail, Scope: string(out.Scope), MovedSeq: uint64(out.Moved.Seq),
		MovedBy: cmp.Or(string(out.Moved.Tx), out.MovedAgent), By: out.By, Tool: out.Tool,
		Retryable: out.Retryable, Would: string(out.Would),
		Chain: fmt.Sprintf("%x", out.Chain), Way: way.String(),
	}
	if !at.IsZero() {
		d.Time = at.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	if out.Code == sequencer.CodeTooOld {
		d.Floor = uint64(out.Floor)
	}
	if out.Tx != "" {
		d.Mode = out.Mode.String()
	}
	for _, b := range out.BlockedBy {
		d.BlockedBy = append(d.BlockedBy, string(b.Tx))
	}
	for _, w := range out.Writes {
		d.Writes = append(d.Writes, string(w.Scope))
	}
	return d
}
