package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// One loading transaction stays well below a footprint's limits: 256 scopes, 64 KiB of names, 128 KiB of content in
// the log.
const (
	batchScopes = 128
	batchBytes  = 64 << 10
)

const (
	jsonType = "application/json"
	// nothing is a shard that is never written: reading it shows how far a view is and nothing else.
	nothing = "shard:/demo/nothing"
)

// batches cuts the initial state into loads of one transaction each.
func batches(initial retail.Memory) [][]string {
	var all [][]string
	var batch []string
	size := 0
	for _, scope := range slices.Sorted(maps.Keys(initial)) {
		if len(batch) == batchScopes || len(batch) > 0 && size+len(initial[scope]) > batchBytes {
			all, batch, size = append(all, batch), nil, 0
		}
		batch = append(batch, scope)
		size += len(initial[scope])
	}
	if len(batch) > 0 {
		all = append(all, batch)
	}
	return all
}

// load writes the initial state through a sidecar, in transactions, and returns the seq of the last one.
func (r *run) load(ctx context.Context, store *client.Client) (seq uint64, err error) {
	loader := &agent{name: "loader", store: store, run: r}
	for i, batch := range batches(r.initial) {
		at, err := loader.loadBatch(ctx, batch)
		if err != nil {
			return 0, fmt.Errorf("load the initial data, batch %d: %w", i, err)
		}
		r.records.add(at)
		seq = max(seq, at.Seq)
	}
	return seq, nil
}

// loadBatch writes some shards in one transaction, and again until it is committed: no other agent runs yet to refuse
// it for.
func (a *agent) loadBatch(ctx context.Context, batch []string) (*Attempt, error) {
	for n := 1; n <= maxAttempts; n++ {
		tx, err := a.open(ctx, nil)
		if err != nil {
			return nil, err
		}
		at := &Attempt{Agent: a.name, Task: -1, N: n, Tx: tx.ID()}
		next, err := a.finish(ctx, tx, at, a.writeAll(ctx, tx, at, batch, a.run.initial))
		if err != nil {
			return nil, err
		}
		if at.committed() {
			return at, nil
		}
		a.run.records.add(at)
		if err := pause.Sleep(ctx, next.backoff); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("refused %d times", maxAttempts)
}

// awaitView waits until a sidecar's view has reached a seq.
func awaitView(ctx context.Context, store *client.Client, seq uint64) error {
	var view uint64
	for {
		err := insist(ctx, func() error {
			shard, err := store.Get(ctx, nothing)
			view = shard.View
			return err
		})
		if err != nil {
			return fmt.Errorf("wait for a view of seq %d: %w", seq, err)
		}
		if view >= seq {
			return nil
		}
		if err := pause.Sleep(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("wait for a view of seq %d, it is at %d: %w", seq, view, err)
		}
	}
}

// readAll reads shards one by one, outside any transaction.
func readAll(ctx context.Context, store *client.Client, scopes []string) (retail.Memory, error) {
	state := retail.Memory{}
	for _, scope := range scopes {
		var shard client.Shard
		err := insist(ctx, func() (err error) {
			shard, err = store.Get(ctx, scope)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the final state: %w", err)
		}
		if shard.Exists {
			state[scope] = shard.Content
		}
	}
	return state, nil
}
