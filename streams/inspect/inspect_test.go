package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/inspect"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// A cluster that is well has no problems, and the facts are those of the cluster.
func TestInspect(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.HashEvery, c.StateAfter = 4, time.Millisecond })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	for range 20 {
		w.Decided(v, ann.Write("x", "y"))
	}
	w.Complete(v, "shop")
	var r *inspect.Report
	w.Until("no problems and no lag", func() bool {
		said := ""
		if r, said = w.Inspect(w.Cfg); said != "" {
			t.Log(said)
			return false
		}
		lag := int64(0)
		for _, g := range r.Groups {
			for _, l := range g.Lags {
				lag += l.Lag
			}
		}
		return lag == 0
	})
	if len(r.Brokers) != 1 || r.Brokers[0].Version == "" || r.Log == "" || len(r.Topics) != 10 || len(r.Groups) != 3 {
		t.Errorf("the report: %+v", r)
	}
	for _, g := range r.Groups {
		if g.State != "Stable" || len(g.Members) != 1 || !strings.Contains(g.Members[0].Instance, "one") ||
			len(g.Members[0].Partitions) != 2 || len(g.Lags) < 2 {
			t.Errorf("group %+v", g)
		}
	}
	looked := 0
	for _, d := range r.Decisions {
		looked += d.Looked
	}
	if looked != v.Len() || r.Replicas.A == 0 || r.Replicas.B != 0 {
		t.Errorf("%d of %d decisions were looked at, replicas %+v", looked, v.Len(), r.Replicas)
	}
	if n := r.NATS; !n.Connected || !n.Stream || n.OtherLog || n.Messages != uint64(v.Len()) || n.Storage != "Memory" {
		t.Errorf("NATS: %+v", n)
	}
	if len(r.Clocks) != 2 {
		t.Errorf("clocks: %+v", r.Clocks)
	}
}

// What is wrong is found, and said with what fixes it.
func TestInspectFinds(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t)
	find := func(want ...string) {
		t.Helper()
		_, said := w.Inspect(w.Cfg)
		for _, text := range want {
			if !strings.Contains(said, text) {
				t.Errorf("%q is not said:\n%s", text, said)
			}
		}
	}
	find("no sequencer runs", "hence streams --brokers", topology.DecisionStream+" is not there")
	cl := w.Kafka()
	at := time.Now()
	for _, seq := range []sequencer.Seq{1, 2, 5, 1} {
		b, err := topology.EncodeCloudEvent(&sequencer.Outcome{Workspace: "shop", Seq: seq, Kind: sequencer.OutcomeBegun},
			at, "")
		if err != nil {
			t.Fatal(err)
		}
		w.Put(cl, topology.TopicDecisions, "shop", b)
	}
	w.Put(cl, topology.TopicParked, "shop", []byte("x"))
	find("workspace shop lacks the decisions between 2 and 5", "1 records could not be read")
	w.Servers.StopNATS()
	find("NATS at ")
	wrong := w.Cfg
	wrong.Partitions = 4
	if _, said := w.Inspect(wrong); !strings.Contains(said, "2 partitions where all topics must have 4") {
		t.Errorf("other partitions: %s", said)
	}
	w.Servers.StopKafka()
	find("Kafka at ", "--brokers")
	if _, err := inspect.Cluster(w.Context(), streams.Config{}); err == nil {
		t.Error("no configuration is inspected")
	}
}

// A decision stream that may not be looked at is not one that is well.
func TestInspectBlind(t *testing.T) {
	t.Parallel()
	w := teststreams.New(t)
	rights := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.>"}}}
	ns := teststreams.StartNATS(t, &server.Options{
		Users: []*server.User{{Username: "half", Password: "rosebud", Permissions: rights}}})
	cfg := w.Cfg
	cfg.NATS = ns.ClientURL()
	cfg.NATSAuth = streams.NATSAuth{User: "half", PasswordFile: teststreams.SecretFile(t, "nats", "rosebud\n")}
	r, said := w.Inspect(cfg)
	if !r.NATS.JetStream || r.NATS.Stream {
		t.Errorf("NATS: %+v", r.NATS)
	}
	for _, text := range []string{"cannot be looked at", "$JS.API.STREAM.INFO", "give this user"} {
		if !strings.Contains(said, text) {
			t.Errorf("%q is not said:\n%s", text, said)
		}
	}
}
