// Package tail follows a workspace's decisions and prints those that are asked for.
package tail

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

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// Decision is one line of "hence tail -o json".
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

// Options is what is followed, and where it is printed.
type Options struct {
	Filter
	Workspace string
	After     uint64    // the seq to begin after; 0: with the first decision
	Limit     uint64    // decisions to show; 0: without end
	JSON      bool      // each as a Decision on one line
	Out, Err  io.Writer // to Err: what of the cluster cannot be used
}

// Check says which flag has a value that is none, before anything is connected to.
func (o Options) Check(now time.Time) error {
	if _, err := o.filter(); err != nil {
		return err
	}
	_, err := o.from(o.After, now)
	return err
}

// Follow prints decisions until the context ends, or until as many are shown as are asked for.
func Follow(ctx context.Context, client *streams.Client, o Options) error {
	filter, err := o.filter()
	if err != nil {
		return err
	}
	from, err := o.from(o.After, time.Now())
	if err != nil {
		return err
	}
	seen := uint64(0)
	defer sayWhatIsAway(ctx, client, o.Err)()
	after, err := from.seq(ctx, client, o.Workspace)
	if err != nil {
		return err
	}
	lines := lines{w: o.Out, colour: show.Colourful(o.Out), now: time.Now}
	if !o.JSON {
		if err := lines.head(); err != nil {
			return err
		}
	}
	err = client.FollowAt(ctx, o.Workspace, after, func(out *sequencer.Outcome, way streams.Way, at time.Time) error {
		if !filter.Match(out) || !o.shows(out) {
			return nil
		}
		var err error
		if o.JSON {
			err = show.WriteJSON(o.Out, decisionOf(out, way, at))
		} else {
			err = lines.write(out, at)
		}
		if err != nil {
			return err
		}
		if seen++; seen == o.Limit {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough) || ctx.Err() != nil:
		return nil
	case errors.Is(err, streams.ErrGone):
		return fmt.Errorf("follow %s: %w: begin later, with --since 1h or a greater --after", o.Workspace, err)
	}
	return fmt.Errorf("follow %s: %w", o.Workspace, err)
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
				_ = show.Plainly(w, "hence tail: %s\n", cmp.Or(away, "everything can be used again")) // said again when it changes
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
