package streams_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// inspect returns a report and the text of its problems.
func (w *world) inspect(cfg streams.Config) (*streams.Report, string) {
	w.t.Helper()
	r, err := streams.Inspect(w.context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, p := range r.Problems {
		if p.Fix == "" {
			w.t.Errorf("a problem without a way out: %s", p.What)
		}
		lines = append(lines, p.String())
	}
	if _, err := json.Marshal(r); err != nil {
		w.t.Error(err)
	}
	return r, strings.Join(lines, "\n")
}

// A cluster that is well has no problems, and the facts are those of the cluster.
func TestInspect(t *testing.T) {
	w := newWorld(t, func(c *streams.Config) { c.HashEvery, c.StateAfter = 4, time.Millisecond })
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann := w.join(c, v, "shop", "ann")
	for range 20 {
		w.decided(v, ann.write("x", "y"))
	}
	w.complete(v, "shop")
	var r *streams.Report
	w.until("no problems and no lag", func() bool {
		said := ""
		if r, said = w.inspect(w.cfg); said != "" {
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
	if len(r.Brokers) != 1 || r.Brokers[0].Version == "" || r.Log == "" || len(r.Topics) != 11 || len(r.Groups) != 3 {
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
	if looked != v.len() || r.Replicas.A == 0 || r.Replicas.B != 0 {
		t.Errorf("%d of %d decisions were looked at, replicas %+v", looked, v.len(), r.Replicas)
	}
	if n := r.NATS; !n.Connected || !n.Stream || n.OtherLog || n.Messages != uint64(v.len()) || n.Storage != "Memory" {
		t.Errorf("NATS: %+v", n)
	}
	if len(r.Clocks) != 2 {
		t.Errorf("clocks: %+v", r.Clocks)
	}
}

// What is wrong is found, and said with what mends it.
func TestInspectFinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	find := func(want ...string) {
		t.Helper()
		_, said := w.inspect(w.cfg)
		for _, text := range want {
			if !strings.Contains(said, text) {
				t.Errorf("%q is not said:\n%s", text, said)
			}
		}
	}
	find("no sequencer runs", "hence streams --brokers", topology.DecisionStream+" is not there")
	cl := w.kafka()
	at := time.Now()
	for _, seq := range []sequencer.Seq{1, 2, 5, 1} {
		b, err := topology.EncodeCloudEvent(&sequencer.Outcome{Workspace: "shop", Seq: seq, Kind: sequencer.OutcomeBegun},
			at, "")
		if err != nil {
			t.Fatal(err)
		}
		w.put(cl, topology.TopicDecisions, "shop", b)
	}
	w.put(cl, topology.TopicParked, "shop", []byte("x"))
	find("workspace shop lacks the decisions between 2 and 5", "1 records could not be read")
	w.servers.StopNATS()
	find("NATS at ")
	wrong := w.cfg
	wrong.Partitions = 4
	if _, said := w.inspect(wrong); !strings.Contains(said, "2 partitions where all topics must have 4") {
		t.Errorf("other partitions: %s", said)
	}
	w.servers.StopKafka()
	find("Kafka at ", "--brokers")
	if _, err := streams.Inspect(w.context(), streams.Config{}); err == nil {
		t.Error("no configuration is inspected")
	}
}

// A decision stream that nobody may look at is not one that is well.
func TestInspectBlind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rights := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.>"}}}
	ns := startNATS(t, &server.Options{
		Users: []*server.User{{Username: "half", Password: "rosebud", Permissions: rights}}})
	cfg := w.cfg
	cfg.NATS = ns.ClientURL()
	cfg.NATSAuth = streams.NATSAuth{User: "half", PasswordFile: secretFile(t, "nats", "rosebud\n")}
	r, said := w.inspect(cfg)
	if !r.NATS.JetStream || r.NATS.Stream {
		t.Errorf("NATS: %+v", r.NATS)
	}
	for _, text := range []string{"cannot be looked at", "$JS.API.STREAM.INFO", "give this user"} {
		if !strings.Contains(said, text) {
			t.Errorf("%q is not said:\n%s", text, said)
		}
	}
}
