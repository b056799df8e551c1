package tables

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/postgres"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/redis"
)

// Servers are addresses of what may run beside Hence; empty: it does not.
type Servers struct{ Postgres, Redis, SBus string }

// rules are those of the servers that were given.
func (s Servers) rules() (all []rule) {
	for i, at := range []string{s.Postgres, s.Redis, s.SBus} {
		if at != "" {
			all = append(all, []rule{inPostgres, inRedis, published}[i])
		}
	}
	return all
}

// versioned are shards on a server.
type versioned interface {
	Create(ctx context.Context, key, content string) (made bool, err error)
	Read(ctx context.Context, key string) (version uint64, content string, there bool, err error)
	Commit(ctx context.Context, key, text string, at uint64, others []string, refuses func(map[string]uint64) string) (
		version uint64, refused string, err error)
	Settings(ctx context.Context) (string, error)
	Close()
}

// served is a keeper over shards on a server.
type served struct{ versioned }

// Commit is part of keeper.
func (s served) Commit(ctx context.Context, key, text string, at uint64, others map[string]uint64) (uint64, string,
	error) {
	return s.versioned.Commit(ctx, key, text, at, slices.Collect(maps.Keys(others)),
		func(there map[string]uint64) string { return refuses(there, key, at, others) })
}

// store opens a store of a rule, and says how it makes a commit durable. End closes what was opened.
func (e *Env) store(ctx context.Context, r rule) (b *bus, says string, end func(), err error) {
	const conns = 16
	var shards versioned
	name := fmt.Sprintf("hence-tables-%d-%d", os.Getpid(), time.Now().UnixNano())
	switch r {
	case published:
		b := newBus(e.Servers.SBus)
		_, err := b.ask(ctx, http.MethodPost, "/admin/reset", struct{}{}, nil, http.StatusOK)
		return b, "", func() {}, err
	case inPostgres:
		shards, err = postgres.OpenShards(ctx, e.Servers.Postgres, name, conns)
	case inRedis:
		shards, err = redis.Open(ctx, e.Servers.Redis, name, conns)
	}
	if err != nil {
		return nil, "", nil, err
	}
	kept := inMemory(r)
	serving, end := context.WithCancel(ctx)
	if shards != nil {
		kept.keeper = served{shards}
		stop := end
		end = func() { stop(); shards.Close() }
		says, err = shards.Settings(ctx)
	}
	at := ""
	if err == nil {
		at, err = serve(serving, kept)
	}
	if err != nil {
		end()
		return nil, "", nil, err
	}
	return newBus(at), says, end, nil
}
