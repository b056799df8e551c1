package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// content is what every turn writes, into a shard or a row.
const content = "some hundred bytes, as small records have: what an order's state is, who has it, since when it is so"

// work is turns of one read and one write over shards, by so many clients.
type work struct {
	clients []*client.Client // by worker
	shard   func(worker int) int
	mode    string // order mode
	claims  bool   // in mode ordered, the begin names the shard
	update  bool   // the shard is read for update
}

// name is how the report calls the way.
func (w *work) name() string {
	if w.update {
		return w.mode + ", for update"
	}
	return w.mode
}

// sessions spreads clients over agents, each in a conversation of its own.
func sessions(agents []*client.Client, clients int) (all []*client.Client) {
	for i := range clients {
		all = append(all, agents[i%len(agents)].Session(fmt.Sprintf("client-%d", i)))
	}
	return all
}

// anyOf picks one of so many shards for each turn.
func anyOf(shards int) func(int) int { return func(int) int { return rand.IntN(shards) } }

// ownOf gives each worker a shard of its own.
func ownOf(worker int) int { return worker }

const (
	// linesEach is how many lines come into one shard: more than 256 KiB none may have.
	linesEach = 2000
	// addedRows are more rows than any run fills with so many lines.
	addedRows = 1000
)

// byLines lets all workers meet on one shard until it has its lines, and then on the next, from the first one on.
func byLines(first int) func(int) int {
	var lines atomic.Int64
	return func(int) int { return first + int(lines.Add(1)/linesEach)%addedRows }
}

func scopeOf(shard int) string { return fmt.Sprintf("shard:/bench/%d", shard) }

// two is a turn of two requests: a read of the shard, and a commit that rests on it. A refused one reads with the
// refusal what it needs to go on.
func (w *work) two(ctx context.Context, worker int) (time.Duration, int, error) {
	scope, c := scopeOf(w.shard(worker)), w.clients[worker]
	var seen *client.Seen
	return again(ctx, func() (time.Duration, client.Decision, error) {
		at, err := w.seen(ctx, c, scope, seen)
		if err != nil {
			return 0, client.Decision{}, err
		}
		begin := time.Now()
		done, err := c.Commit(ctx, client.Commit{Reads: []client.SeenAt{at}, Mode: w.mode, ReadAgain: true,
			Writes: []client.Write{{Scope: scope, Content: []byte(content)}}})
		if seen = done.Read; seen == nil {
			if p, refused := errors.AsType[*client.Problem](err); refused {
				seen = p.Read
			}
		}
		return time.Since(begin), done.Decision, err
	})
}

// seen is the shard as a refusal has shown it, or else as it is read now.
func (w *work) seen(ctx context.Context, c *client.Client, scope string, seen *client.Seen,
) (at client.SeenAt, err error) {
	var got []client.Shard
	if seen != nil {
		got, err = client.ShardsOf(seen)
	} else {
		got, _, err = c.ReadAll(ctx, scope)
	}
	if err != nil {
		return at, err
	}
	return got[0].At(), nil
}

// adds is a turn of one request: a commit that puts a line behind what the shard has, unread.
func (w *work) adds(ctx context.Context, worker int) (time.Duration, int, error) {
	scope := scopeOf(w.shard(worker))
	return again(ctx, func() (time.Duration, client.Decision, error) {
		begin := time.Now()
		done, err := w.clients[worker].Commit(ctx, client.Commit{Writes: []client.Write{{Scope: scope,
			Content: []byte(content), Op: "append"}}})
		return time.Since(begin), done.Decision, err
	})
}

// four is a turn of four requests: begin, read, write, seal.
func (w *work) four(ctx context.Context, worker int) (time.Duration, int, error) {
	scope := scopeOf(w.shard(worker))
	return again(ctx, func() (time.Duration, client.Decision, error) {
		o := client.BeginOptions{Mode: w.mode}
		if w.claims {
			o.May = []client.Want{{Scope: scope, Access: "write"}}
		}
		tx, err := w.clients[worker].Begin(ctx, o)
		switch {
		case err != nil:
		case w.update:
			_, err = tx.ReadForUpdate(ctx, scope)
		default:
			_, err = tx.Read(ctx, scope)
		}
		if err == nil {
			err = tx.Write(ctx, scope, []byte(content), client.WriteOptions{})
		}
		if err != nil {
			return 0, client.Decision{}, err
		}
		begin := time.Now()
		d, err := tx.Seal(ctx)
		return time.Since(begin), d, err
	})
}

// turn is the one that the benchmark was told to make.
func (b *bench) turn(w *work) load.Turn {
	w.mode = b.Mode
	if b.Turn == "four" {
		return w.four
	}
	return w.two
}

// again makes an attempt until it is committed, at once: what a refusal advises to wait is for agents that think.
func again(ctx context.Context, attempt func() (time.Duration, client.Decision, error),
) (took time.Duration, refused int, err error) {
	for ; ctx.Err() == nil; refused++ {
		took, d, err := attempt()
		if p, ok := errors.AsType[*client.Problem](err); ok && (p.Retryable || p.Code == string(sequencer.CodeStaleRead)) {
			continue
		}
		if err != nil {
			return 0, refused, err
		}
		if d.State == api.StateCommitted {
			return took, refused, nil
		}
		if !d.Retryable {
			return 0, refused, fmt.Errorf("transaction %s is %s: %s", d.Tx, d.State, d.Code)
		}
	}
	return 0, refused, context.Cause(ctx)
}

// ceiling is how many turns a second the clients make when every answer is there at once: no system under test can
// show more.
func (b *bench) ceiling(ctx context.Context, clients int) (float64, error) {
	const committed = `{"tx":"t","state":"committed","seq":2,"final":true}`
	answers := map[string]string{
		"reads":  `{"items":[{"scope":"shard:/bench/0","exists":true,"version":1,"content":"` + content + `"}],"view":1}`,
		"commit": `{"tx":"t","decision":` + committed + `}`,
		"tx":     `{"tx":"t","state":"open"}`, "writes": `{}`, "seal": committed,
	}
	url, end, err := serve(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answers[path.Base(r.URL.Path)])
	})
	if err != nil {
		return 0, err
	}
	defer end()
	c := client.New(url, "token")
	defer c.Close()
	w := &work{clients: sessions([]*client.Client{c}, clients), shard: anyOf(1)}
	got, err := b.warmed(ctx, load.Spec{Workers: clients, For: b.For / 3}, b.turn(w))
	return got.Rate(), err
}

// serve is a bare HTTP server on a free port of this machine, until end is called.
func serve(answer http.HandlerFunc) (url string, end func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen for the bare handler: %w", err)
	}
	server := &http.Server{Handler: answer, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // it ends with Close, and says no more than that
	}()
	return "http://" + listener.Addr().String(), func() {
		_ = server.Close()
		<-ended
	}, nil
}
