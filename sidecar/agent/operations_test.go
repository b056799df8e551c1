package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// A stop refuses what is new, ends long polls, and lets nothing run on.
func TestStop(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	polled := make(chan error, 1)
	go func() {
		_, err := tx.Status(ctx, testWait)
		polled <- err
	}()
	begun := time.Now()
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Fatalf("the stop took %v", took)
	}
	<-polled
	once := client.New(a.URL(), a.Token(), client.WithTries(1))
	defer once.Close()
	if _, err := once.Begin(ctx, client.BeginOptions{}); err == nil {
		t.Fatal("a stopped sidecar began a transaction")
	}
}

// Health, readiness per part and metrics answer without a token; readiness names what is wrong.
func TestOperations(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door)
	ctx := background(t)
	must(a.client.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}))(t)
	page := func(path string) (int, string) {
		resp, err := checked(t, &http.Transport{DisableKeepAlives: true}).RoundTrip(
			must(http.NewRequestWithContext(ctx, http.MethodGet, a.URL()+path, nil))(t))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, string(must(io.ReadAll(resp.Body))(t))
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/openapi.json", "/v1/openapi.yaml"} {
		if status, body := page(path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	_, body := page("/metrics")
	for _, line := range []string{`hence_sidecar_requests_total{class="2xx",route="write_shard"} 1`,
		`hence_sidecar_decisions_total{code="none",state="committed"} 1`, `hence_sidecar_deliveries_total{way="nats"} 2`,
		`hence_sidecar_seal_decision_seconds_count 1`, `hence_sidecar_view_seq 2`} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
	door.SetReady(fmt.Errorf("no broker answers"))
	if status, body := page("/readyz"); status != 503 || !strings.Contains(body, "no broker answers") {
		t.Errorf("readyz: %d %s", status, body)
	}
}

// Without a view nothing is answered, and the reason is given.
func TestNotReady(t *testing.T) {
	log := newLog()
	r := launch(t, "a", deaf{log.Door()}, nil, func(c *setup) { c.Limits.SessionWait = time.Millisecond })
	once := client.New(r.URL(), r.Token(), client.WithTries(1))
	defer once.Close()
	ctx := background(t)
	if _, err := once.Get(ctx, "shard:/x"); problemIn(t, err).Code != api.CodeNotReady {
		t.Fatalf("a read: %v", err)
	}
	if _, err := once.Chain(ctx, 0, 0); problemIn(t, err).Code != api.CodeNotReady {
		t.Fatalf("the chain: %v", err)
	}
}

// deaf is a log whose snapshot never comes.
type deaf struct{ Log }

func (d deaf) Snapshot(ctx context.Context, _ string) (*topology.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
