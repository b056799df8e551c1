package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/ground"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/sidecar/client"
)

// read measures reads of one shard through the sidecar, beside a handler that does nothing but answer as much.
func (b *bench) read(ctx context.Context) error {
	b.say("read: starting")
	return b.on(ctx, b.Sidecars, nil, b.readOn)
}

func (b *bench) readOn(ctx context.Context, g *ground.Ground) error {
	doors, workspace, err := b.doorsOn(ctx, g, false, 1)
	if err != nil {
		return err
	}
	c := client.New(doors[0].URL, doors[0].Token, client.WithWorkspace(workspace))
	defer c.Close()
	if _, err := c.Put(ctx, scopeOf(0), []byte(content), client.WriteOptions{}); err != nil {
		return fmt.Errorf("write the shard: %w", err)
	}
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	bare, end, err := serve(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a connection is used again once the request is read
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, content)
	})
	if err != nil {
		return err
	}
	defer end()
	clients := or(b.Clients, 8)[0]
	const body = `{"scope":"shard:/bench/0"}`
	for _, of := range []struct{ name, request string }{
		{"journalled read", "GET /v1/workspaces/" + workspace + "/shards/bench/0 HTTP/1.1\r\n%s\r\n"},
		{"read in a transaction", "POST /v1/tx/" + tx.ID() + "/reads HTTP/1.1\r\n%sContent-Type: application/json\r\n" +
			"Idempotency-Key: KEY\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body},
	} {
		request := fmt.Sprintf(of.request, "Host: localhost\r\nAuthorization: Bearer "+doors[0].Token+"\r\n")
		if err := b.reads(ctx, of.name, doors[0].URL, bare, request, clients); err != nil {
			return err
		}
	}
	return nil
}

// reads measures one request at the sidecar and at the bare handler, which is the probe, too.
func (b *bench) reads(ctx context.Context, name, sidecar, bare, request string, clients int) error {
	ours, err := dialAll(ctx, sidecar, request, clients)
	if err != nil {
		return err
	}
	defer ours.close()
	theirs, err := dialAll(ctx, bare, request, clients)
	if err != nil {
		return err
	}
	defer theirs.close()
	var plain load.Result
	probe := func(ctx context.Context) (_ float64, err error) {
		plain, err = b.warmed(ctx, load.Spec{Workers: clients, For: b.For / 2}, theirs.turn)
		return plain.Rate(), err
	}
	return b.rounds(ctx, name, probe, func(ctx context.Context, r *round) error {
		r.put(report.Read, name, "a bare handler", "reads/s", plain.Rate())
		r.quantiles(report.Read, name, "a bare handler", plain.Decisions)
		got, err := b.warmed(ctx, load.Spec{Workers: clients, For: b.For}, ours.turn)
		if err != nil {
			return err
		}
		r.put(report.Read, name, b.shape(), "reads/s", got.Rate())
		r.quantiles(report.Read, name, b.shape(), got.Decisions)
		r.put(report.Read, name, b.shape(), report.OfBare, got.Rate()/plain.Rate())
		return nil
	})
}

// wires are connections that send one request over and over: a client that costs next to nothing, so that what is
// compared is what answers.
type wires struct {
	request []string // before and after the idempotency key, where there is one
	conns   []net.Conn
	readers []*bufio.Reader
	sent    []int
	name    string
}

func dialAll(ctx context.Context, url, request string, n int) (*wires, error) {
	w := &wires{request: strings.Split(request, "KEY"), sent: make([]int, n), name: fmt.Sprint(time.Now().UnixNano())}
	for range n {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			w.close()
			return nil, fmt.Errorf("connect to %s: %w", url, err)
		}
		w.conns, w.readers = append(w.conns, conn), append(w.readers, bufio.NewReader(conn))
	}
	return w, nil
}

func (w *wires) close() {
	for _, conn := range w.conns {
		_ = conn.Close()
	}
}

// turn is load.Turn: one request and its answer.
func (w *wires) turn(_ context.Context, worker int) (time.Duration, int, error) {
	begin := time.Now()
	w.sent[worker]++
	request := strings.Join(w.request, fmt.Sprintf("%s-%d-%d", w.name, worker, w.sent[worker]))
	if _, err := io.WriteString(w.conns[worker], request); err != nil {
		return 0, 0, fmt.Errorf("send a read: %w", err)
	}
	answer, err := http.ReadResponse(w.readers[worker], nil)
	if err != nil {
		return 0, 0, fmt.Errorf("read an answer: %w", err)
	}
	said, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return 0, 0, fmt.Errorf("read an answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("a read was answered %s: %.300s", answer.Status, said)
	}
	return time.Since(begin), 0, nil
}

// doorsOn starts so many agents in a workspace of their own.
func (b *bench) doorsOn(ctx context.Context, g *ground.Ground, each bool, n int,
) (doors []ground.Door, workspace string, err error) {
	workspace = b.unique()
	doors, err = g.Doors(ctx, workspace, each, agentNames("agent", n)...)
	return doors, workspace, err
}

func agentNames(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i+1))
	}
	return names
}
