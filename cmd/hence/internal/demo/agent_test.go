package demo

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/retail"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
)

// sidecarThat plays a sidecar that answers reads and writes, and a seal and a question for the status as told.
func sidecarThat(t *testing.T, seal, status http.HandlerFunc) *client.Client {
	t.Helper()
	answer := func(code int, v any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(v)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/workspaces/{w}/tx", answer(http.StatusCreated, api.Decision{Tx: "tx-1", State: "open"}))
	mux.HandleFunc("POST /v1/tx/tx-1/reads", answer(http.StatusOK, api.Shard{View: 5}))
	mux.HandleFunc("POST /v1/tx/tx-1/writes", answer(http.StatusOK, api.Written{}))
	mux.HandleFunc("GET /v1/workspaces/{w}/shards/{rest...}",
		answer(http.StatusNotFound, api.Problem{Code: "not_found", Status: http.StatusNotFound, View: 9}))
	mux.HandleFunc("POST /v1/tx/tx-1/seal", seal)
	mux.HandleFunc("GET /v1/tx/tx-1", status)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c := client.New(server.URL, "token", client.WithTries(1))
	t.Cleanup(c.Close)
	return c
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func says(status int, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
}

// attempt lets an agent make one attempt at a task that only reads, with a log that holds these outcomes up to seq 9.
func attempt(t *testing.T, store *client.Client, log ...sequencer.Outcome) *Attempt {
	t.Helper()
	set := retail.Small(1)
	r := &run{cfg: &Config{Order: "optimistic"}, log: newDecisionLog(),
		plan: &plan{domain: set.Domain(), tasks: []retail.Task{set.Contended(0, "a note")}}}
	for _, out := range append(log, sequencer.Outcome{Kind: sequencer.OutcomeJoined, Seq: 9}) {
		if err := r.log.apply(&out, streams.WayKafka); err != nil {
			t.Fatal(err)
		}
	}
	a := &agent{name: "a", store: store, run: r, rng: rand.New(rand.NewPCG(1, 1))}
	tx, err := a.open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := &Attempt{Agent: "a", N: 1, Tx: tx.ID()}
	if _, err := a.try(t.Context(), tx, at); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestUnansweredSeal holds that an agent whose seal is not answered finds out what became of it, and never guesses.
func TestUnansweredSeal(t *testing.T) {
	gone := says(http.StatusGone, api.Problem{Code: "session_lost", Status: http.StatusGone, Retryable: true})
	committed := sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Tx: "tx-1", Seq: 7}
	aborted := sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: "tx-1", Seq: 7, Code: sequencer.CodeLeaseExpired}
	for _, c := range []struct {
		name   string
		status http.HandlerFunc
		log    []sequencer.Outcome
		want   Attempt
	}{
		{"the sidecar knows", says(http.StatusOK, api.Decision{State: "committed", Seq: 8}), nil,
			Attempt{End: EndCommitted, Seq: 8}},
		{"the log knows of a commit", gone, []sequencer.Outcome{committed},
			Attempt{End: EndCommitted, Seq: 7, FromLog: true}},
		{"the log knows of an abort", gone, []sequencer.Outcome{aborted},
			Attempt{End: EndAborted, Seq: 7, Code: "lease_expired", FromLog: true}},
		{"it never arrived", gone, nil, Attempt{End: EndInterrupted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := attempt(t, sidecarThat(t, hangUp, c.status), c.log...)
			if at.End != c.want.End || at.Seq != c.want.Seq || at.Code != c.want.Code || at.FromLog != c.want.FromLog {
				t.Errorf("got %+v, want %+v", at, c.want)
			}
			if !at.Sealed {
				t.Error("the record does not say that the seal left")
			}
		})
	}
}

// TestRefusedSeal holds that a refusal is recorded with its code and its place.
func TestRefusedSeal(t *testing.T) {
	refusal := says(http.StatusConflict, api.Problem{Code: "stale_read", Status: http.StatusConflict,
		Decision: &api.Decision{State: "aborted", Code: "stale_read", Seq: 6, Retryable: true}})
	at := attempt(t, sidecarThat(t, refusal, hangUp))
	if at.End != EndAborted || at.Code != "stale_read" || at.Seq != 6 || at.FromLog {
		t.Errorf("got %+v", at)
	}
}

// TestDecisionLogRefusesTwoDecisions holds that a transaction that is decided twice is not overlooked.
func TestDecisionLogRefusesTwoDecisions(t *testing.T) {
	log := newDecisionLog()
	out := sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Tx: "t", Seq: 1}
	if err := log.apply(&out, streams.WayKafka); err != nil {
		t.Fatal(err)
	}
	out.Seq = 2
	if err := log.apply(&out, streams.WayKafka); err == nil {
		t.Error("a second decision of t was taken")
	}
}

func TestMeeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meeting{}
		start := time.Now()
		if m.meet(t.Context(), time.Second) || time.Since(start) != time.Second {
			t.Errorf("alone: another one came, or it took %s", time.Since(start))
		}
		came := make(chan bool, 1)
		go func() { came <- m.meet(context.Background(), time.Hour) }()
		synctest.Wait()
		if !m.meet(t.Context(), time.Second) || !<-came {
			t.Error("two came and did not meet")
		}
		go func() { came <- m.meet(context.Background(), time.Hour) }()
		synctest.Wait()
		m.leave()
		if <-came || m.meet(t.Context(), time.Hour) {
			t.Error("a meeting took place although the other one had left")
		}
	})
}

// TestPlanDealsEveryTaskOnce holds that every task is dealt to one agent, and that the first two want the same order.
func TestPlanDealsEveryTaskOnce(t *testing.T) {
	for _, agents := range []int{1, 2, 3, 8, 64} {
		c := &Config{Agents: agents, Tasks: 5, Seed: 3}
		p, err := c.makePlan()
		if err != nil {
			t.Fatal(err)
		}
		dealt := map[int]int{}
		for _, tasks := range p.deal {
			for _, task := range tasks {
				dealt[task]++
			}
		}
		if len(p.tasks) != 5*agents || len(dealt) != 5*agents || len(p.deal) != agents {
			t.Errorf("%d agents: %d tasks, %d of them dealt", agents, len(p.tasks), len(dealt))
		}
		if agents > 1 && p.tasks[p.deal[0][4]].UserID != p.tasks[p.deal[1][2]].UserID {
			t.Errorf("%d agents: the first two do not want the same order", agents)
		}
	}
}

// TestBatchesStayBelowTheLimits holds that loading transactions fit, and that nothing is left out.
func TestBatchesStayBelowTheLimits(t *testing.T) {
	initial := retail.Memory(retail.Small(1).Initial())
	big := make([]byte, batchBytes+1)
	initial["shard:/big"] = big
	left := len(initial)
	for _, batch := range batches(initial) {
		size := 0
		for _, scope := range batch {
			size += len(initial[scope])
		}
		if len(batch) == 0 || len(batch) > batchScopes || size > batchBytes && len(batch) > 1 {
			t.Errorf("a batch of %d shards, %d bytes", len(batch), size)
		}
		left -= len(batch)
	}
	if left != 0 {
		t.Errorf("%d shards are in no batch", left)
	}
}
