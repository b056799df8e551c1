package agent

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/sidecar/agent/settle"
	"github.com/hence-dev/hence/sidecar/client"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/sidecar/internal/conform"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testWait = 20 * time.Second

// rig is one sidecar that runs until the test ends, or until it is stopped.
type rig struct {
	*process
	client *client.Client
	stop   func() error
	done   chan struct{}
}

// start runs a sidecar of an agent behind a door and waits until it is ready.
func start(t *testing.T, agent string, door Log, opts ...func(*setup)) *rig {
	t.Helper()
	return startWith(t, agent, door, nil, opts...)
}

func startWith(t *testing.T, agent string, door Log, prepare func(*setup), opts ...func(*setup)) *rig {
	t.Helper()
	r := launch(t, agent, door, prepare, opts...)
	select {
	case <-r.Ready():
	case <-r.done:
		t.Fatalf("the sidecar of %s ended: %v", agent, r.stop())
	case <-time.After(testWait):
		t.Fatalf("the sidecar of %s is not ready", agent)
	}
	return r
}

// launch runs a sidecar without waiting for it.
func launch(t *testing.T, agent string, door Log, prepare func(*setup), opts ...func(*setup)) *rig {
	t.Helper()
	config := setup{Agent: agent, DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	config.Limits.StopWait = time.Second
	for _, o := range opts {
		o(&config)
	}
	if prepare != nil {
		prepare(&config)
	}
	s, err := assemble(config, door)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{process: s, done: make(chan struct{})}
	r.client = client.New(s.URL(), s.Token(), client.WithWorkspace(s.config.Workspace),
		client.WithHTTPClient(&http.Client{Transport: checked(t, &http.Transport{MaxIdleConnsPerHost: 64})}))
	var failed error
	go func() {
		defer close(r.done)
		failed = s.Run(ctx)
	}()
	r.stop = func() error {
		cancel()
		<-r.done
		r.client.Close()
		return failed
	}
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// journalPath is where the rig's journal lies.
func (r *rig) journalPath() string { return r.session.delivery.Place() }

// journalIn is where an agent's journal of a log lies in a folder; its folder is made.
func journalIn(t *testing.T, dir string, log *memlog.Log, agent string) string {
	t.Helper()
	id := must(log.Door().ID(t.Context()))(t)
	path := journal.Of{Log: id, Workspace: "default", Agent: agent}.Path(dir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testWait)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test on an error and passes the value on.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// loadDocument reads the description of the interface once.
var loadDocument = sync.OnceValues(func() (*conform.Document, error) { return conform.Load(face.Document()) })

// checked is a transport that holds every answer against the description.
func checked(t *testing.T, next *http.Transport) http.RoundTripper {
	return must(loadDocument())(t).Transport(t, next)
}

func newLog() *memlog.Log { return memlog.New("default") }

// settlements looks into what settles for the agent, inside of the loop.
func (s *Agent) settlements() settle.Probe { return settle.Probe{Settler: s.settle} }

// inSink makes a call that stays in the sink until open is closed, and then done says how it ended.
func inSink(ctx context.Context, t *testing.T, r *rig, world *sink) (tx *client.Tx, open chan struct{},
	done chan error) {
	t.Helper()
	tx = must(r.client.Begin(ctx, client.BeginOptions{}))(t)
	open, done = make(chan struct{}), make(chan error, 1)
	world.set(func() { world.block["set"] = open })
	go func() {
		_, err := tx.Effect(ctx, "set", at{At: "x"}, client.EffectOptions{})
		done <- err
	}()
	<-world.entered
	return tx, open, done
}
