package teststreams

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/inspect"
	"github.com/hence-dev/hence/topology"
)

// Replicas is a world with the configurations of two groups.
func Replicas(t *testing.T, change ...func(*streams.Config)) (w *World, a, b streams.Config) {
	t.Helper()
	w = New(t, change...)
	a, b = w.Cfg, w.Cfg
	a.Replica, a.Health = "a", new(streams.Health)
	b.Replica, b.Instance, b.Metrics, b.Health = "b", "two", prometheus.NewRegistry(), new(streams.Health)
	if err := streams.EnsureTopics(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return w, a, b
}

// Well waits until a health names nothing.
func (w *World) Well(h *streams.Health) {
	w.T.Helper()
	w.Until("health", func() bool {
		for _, err := range h.Ready() {
			if err != nil {
				return false
			}
		}
		return true
	})
}

// ForgetGroup deletes a group's table and offsets, as the alarm says.
func (w *World) ForgetGroup(group, replica string) {
	w.T.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Cfg.Brokers...))
	if err != nil {
		w.T.Fatal(err)
	}
	defer cl.Close()
	admin, name := kadm.NewClient(cl), topology.GroupOf(group, replica)
	if _, err := admin.DeleteTopic(w.Context(), topology.TableOf(name)); err != nil {
		w.T.Fatal(err)
	}
	w.Until("the end of the group", func() bool {
		r, err := admin.DeleteGroup(w.Context(), name)
		return err == nil && r.Err == nil
	})
}

// SecretFile writes a file that only its owner may read, and returns its path.
func SecretFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// StartNATS starts a server with JetStream that lets in whom the options name; it stops with the test.
func StartNATS(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	o.JetStream, o.StoreDir = true, t.TempDir()
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS takes no connections")
	}
	return ns
}

// Inspect returns a report and the text of its problems.
func (w *World) Inspect(cfg streams.Config) (*inspect.Report, string) {
	w.T.Helper()
	r, err := inspect.Cluster(w.Context(), cfg)
	if err != nil {
		w.T.Fatal(err)
	}
	var lines []string
	for _, p := range r.Problems {
		if p.Fix == "" {
			w.T.Errorf("a problem without a way out: %s", p.What)
		}
		lines = append(lines, p.String())
	}
	if _, err := json.Marshal(r); err != nil {
		w.T.Error(err)
	}
	return r, strings.Join(lines, "\n")
}

// Decide writes decisions of a workspace as if a sequencer had that was just started.
func (w *World) Decide(workspace string, seqs ...sequencer.Seq) {
	w.T.Helper()
	var all []*sequencer.Outcome
	for _, seq := range seqs {
		all = append(all, &sequencer.Outcome{Workspace: workspace, Seq: seq, Kind: sequencer.OutcomeBegun})
	}
	w.DecideAs(all...)
}

// DecideAs writes decisions, whole as they are.
func (w *World) DecideAs(all ...*sequencer.Outcome) {
	w.T.Helper()
	var records []*kgo.Record
	for _, o := range all {
		b, err := topology.EncodeCloudEvent(o, time.Now(), "")
		if err != nil {
			w.T.Fatal(err)
		}
		records = append(records, w.record(topology.TopicDecisions, o.Workspace, b))
	}
	if err := w.Kafka().ProduceSync(w.Context(), records...).FirstErr(); err != nil {
		w.T.Fatal(err)
	}
}

// Touched opens a transaction that is granted a scope, and gives it up.
func (a *Agent) Touched(tx sequencer.TxID, scope sequencer.Scope) {
	a.World.T.Helper()
	in := sequencer.Intent{Tx: tx, N: 1, Agent: a.Name, Incarnation: a.Incarnation, Base: a.Incarnation}
	touch, abort := in, in
	touch.Kind, touch.Begin = sequencer.IntentTouch, &sequencer.Begin{}
	touch.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: scope, Access: sequencer.WriteAccess}}}
	abort.Kind, abort.Abort = sequencer.IntentAbort, &sequencer.Abort{Code: sequencer.CodeToolFailed}
	a.Append(&touch)
	a.Append(&abort)
}

// Again deletes a topic and creates it again.
func (w *World) Again(topic string) {
	w.T.Helper()
	if _, err := kadm.NewClient(w.Kafka()).DeleteTopic(w.Context(), topic); err != nil {
		w.T.Fatal(err)
	}
	if err := streams.EnsureTopics(w.Context(), w.Cfg); err != nil {
		w.T.Fatal(err)
	}
}
