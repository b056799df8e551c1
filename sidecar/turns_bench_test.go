package sidecar_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
)

// BenchmarkTurns is a read and a commit that rests on it, by so many clients at once that share eight agents of one
// sidecar, over a log in memory. The clients cost next to nothing, so what is left is the sidecar's own cost.
func BenchmarkTurns(b *testing.B) {
	for _, clients := range []int{1, 8, 32} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) { benchmarkWires(b, clients, (*wire).turn) })
	}
}

// BenchmarkGet is a read of one shard that the journal has before it is answered, by eight clients.
func BenchmarkGet(b *testing.B) { benchmarkWires(b, 8, (*wire).get) }

// BenchmarkBare is as much by a handler that does nothing but answer: the floor of BenchmarkGet.
func BenchmarkBare(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, content)
		})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	overWires(b, 8, listener.Addr().String(), (*wire).get)
	_ = server.Close()
	<-ended
}

// content is what a turn writes.
const content = "some hundred bytes, as small records have: what an order's state is, who has it, since when it is so"

func benchmarkWires(b *testing.B, clients int, turn func(*wire) error) {
	config := sidecar.Config{DataDir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	for i := range 8 {
		config.Agents = append(config.Agents, sidecar.AgentConfig{Agent: fmt.Sprint("agent-", i),
			Token: fmt.Sprint("token-of-agent-", i)})
	}
	s, err := sidecar.New(config, memlog.New("default").Door())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	first := dial(b, s.Addr(), 0)
	first.n = -1 // its key is none of the others'
	if err := first.turn(); err != nil {
		b.Fatal(err)
	}
	_ = first.conn.Close()
	overWires(b, clients, s.Addr(), turn)
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func overWires(b *testing.B, clients int, address string, turn func(*wire) error) {
	b.Helper()
	var wires []*wire
	for i := range clients {
		wires = append(wires, dial(b, address, i))
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	before := cpuOf(b)
	b.ReportAllocs()
	b.ResetTimer()
	var group sync.WaitGroup
	for _, w := range wires {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := turn(w); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuOf(b)-before)/float64(b.N), "cpu-ns/op")
	for _, w := range wires {
		_ = w.conn.Close()
	}
}

// wire is one client's connection.
type wire struct {
	conn   net.Conn
	reader *bufio.Reader
	n, of  int
	head   string
	answer []byte
}

func dial(b *testing.B, address string, i int) *wire {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	return &wire{conn: conn, reader: bufio.NewReader(conn), of: i, answer: make([]byte, 0, 4096),
		head: fmt.Sprintf(" HTTP/1.1\r\nHost: %s\r\nUser-Agent: Go-http-client/1.1\r\n"+
			"Authorization: Bearer token-of-agent-%d\r\nContent-Type: application/json\r\n"+
			"Hence-Session: client-%d\r\nAccept-Encoding: gzip\r\n", address, i%8, i)}
}

func (w *wire) turn() error {
	scope := fmt.Sprintf("shard:/bench/%d", w.of)
	seen, err := w.ask("reads", "", fmt.Sprintf(`{"scopes":["%s"]}`, scope))
	if err != nil {
		return err
	}
	version := 0
	if _, rest, ok := strings.Cut(seen, `"version":`); ok {
		_, _ = fmt.Sscanf(rest, "%d", &version)
	}
	w.n++
	got, err := w.ask("commit", fmt.Sprintf("Idempotency-Key: key-of-a-turn-%d-%d\r\n", w.of, w.n), fmt.Sprintf(
		`{"reads":[{"scope":"%s","version":%d}],"writes":[{"scope":"%s","content":"%s"}]}`, scope, version, scope, content))
	if err == nil && !strings.Contains(got, `"committed"`) {
		return fmt.Errorf("not committed: %s", got)
	}
	return err
}

func (w *wire) get() error {
	_, err := w.send("GET /v1/workspaces/default/shards/bench/0" + w.head + "\r\n")
	return err
}

func (w *wire) ask(route, header, body string) (string, error) {
	return w.send(fmt.Sprintf("POST /v1/workspaces/default/%s%s%sContent-Length: %d\r\n\r\n%s", route, w.head, header,
		len(body), body))
}

func (w *wire) send(request string) (string, error) {
	if _, err := io.WriteString(w.conn, request); err != nil {
		return "", err
	}
	length := 0
	for first := true; ; first = false {
		line, err := w.reader.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		if first && string(line[9:12]) != fmt.Sprint(http.StatusOK) {
			return "", fmt.Errorf("answered %s", line)
		}
		if len(line) <= 2 {
			break
		}
		if n, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			_, _ = fmt.Sscanf(n, "%d", &length)
		}
	}
	w.answer = w.answer[:length]
	_, err := io.ReadFull(w.reader, w.answer)
	return string(w.answer), err
}

// cpuOf is what this process has used so far, in nanoseconds.
func cpuOf(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
