package memlog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// rows are the last records of hence.residue, by key, with when each was written.
type rows struct {
	last   map[string]topology.Residue
	at     map[string]int
	writes int
}

func (r *rows) put(one topology.Residue) {
	if r.last == nil {
		r.last, r.at = map[string]topology.Residue{}, map[string]int{}
	}
	r.writes++
	r.last[one.RecordKey()], r.at[one.RecordKey()] = one, r.writes
}

// newest are the rows of a workspace, the one that was written last first.
func (r *rows) newest(workspace string) []topology.Residue {
	var list []topology.Residue
	for _, one := range r.last {
		if one.Workspace == workspace {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b topology.Residue) int {
		return cmp.Compare(r.at[b.RecordKey()], r.at[a.RecordKey()])
	})
	return list
}

// Residue is what hence.residue has of the workspace, newest first.
func (l *Log) Residue() []topology.Residue {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.residue.newest(l.workspace)
}

// PublishResidue is part of the log's interface to a sidecar. It fails while events do: see Silence.
func (d *Door) PublishResidue(ctx context.Context, r *topology.Residue) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	text, err := topology.EncodeResidue(r)
	if err != nil {
		return err
	}
	if r, err = topology.DecodeResidue(text); err != nil {
		return err
	}
	if d.silenced() {
		return ErrLost
	}
	l := d.log
	l.mu.Lock()
	defer l.mu.Unlock()
	l.residue.put(*r)
	l.tell()
	return nil
}

// Residue is part of the log's interface to a sidecar.
func (d *Door) Residue(_ context.Context, workspace string, limit int) ([]topology.Residue, error) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	list := d.log.residue.newest(workspace)
	if limit = max(limit, 1); len(list) > limit {
		return list[:limit], streams.ErrTruncated
	}
	return list, nil
}

// Effects is part of the log's interface to a sidecar.
func (d *Door) Effects(_ context.Context, workspace string, tx sequencer.TxID) ([]*topology.Event, error) {
	events := topology.Effects(d.log.Events(), workspace, tx)
	for i, ev := range events {
		if ev.Effect == nil {
			continue
		}
		whole, text := *ev, *ev.Effect
		whole.Effect = &text
		events[i] = &whole
		if err := d.resolve(&text.ArgsRef, &text.Args); err != nil {
			return nil, err
		}
		if err := d.resolve(&text.AnswerRef, &text.Answer); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// Unsettled is part of the log's interface to a sidecar.
func (d *Door) Unsettled(_ context.Context, _, agent string, limit int) ([]topology.Unsettled, sequencer.Seq, error) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	st := d.log.replica.Fold().State()
	list := topology.UnsettledIn(&st, agent, max(limit, 1))
	if list.Truncated {
		return list.Rows, list.Through, streams.ErrTruncated
	}
	return list.Rows, list.Through, nil
}

// Rules is part of the log's interface to a sidecar.
func (d *Door) Rules(context.Context, string) (sequencer.Rules, sequencer.Seq, error) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	st := d.log.replica.Fold().State()
	return st.Rules, st.Seq, nil
}

// Live is part of the log's interface to a sidecar.
func (d *Door) Live(context.Context, string) (topology.Live, error) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	return *topology.LiveIn(d.log.replica.Fold(), 1000), nil
}

// KnownLogic is part of the log's interface to a sidecar.
func (d *Door) KnownLogic(context.Context, string) (uint32, error) { return sequencer.Logic, nil }

// KnownEvents is part of the log's interface to a sidecar.
func (d *Door) KnownEvents(context.Context, string) (uint32, error) {
	return topology.EventsBatched, nil
}

// Cone is part of the log's interface to a sidecar.
func (d *Door) Cone(_ context.Context, _ string, tx sequencer.TxID) (*topology.Cone, error) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	return topology.ConeIn(d.log.replica.Fold(), tx), nil
}

// resolve puts content in the place of a reference.
func (d *Door) resolve(ref **sequencer.Ref, content *[]byte) error {
	at := *ref
	if at == nil {
		return nil
	}
	text, err := d.log.content(*at)
	if err != nil {
		return err
	}
	if int64(len(text)) != at.Size || sequencer.Hash(sha256.Sum256(text)) != at.SHA256 {
		return fmt.Errorf("memlog: content at %d: %w", at.Offset, streams.ErrContent)
	}
	*content, *ref = text, nil
	return nil
}
