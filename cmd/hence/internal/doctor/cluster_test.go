package doctor

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/inspect"
	"github.com/hence-dev/hence/topology"
)

// ill is a cluster without processors, in which a test breaks things.
type ill struct {
	t     *testing.T
	kafka *kgo.Client
	admin *kadm.Client
	at    Patient
}

func newIll(t *testing.T) *ill {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg := streams.Config{Brokers: servers.Brokers, NATS: servers.NATS}
	if err := streams.EnsureTopics(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	kafka, err := kgo.NewClient(kgo.SeedBrokers(servers.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	return &ill{t: t, kafka: kafka, admin: kadm.NewClient(kafka), at: patient(servers.Brokers[0], servers.NATS)}
}

// patient is a cluster, and an agent without anything on this machine.
func patient(broker, nats string) Patient {
	return Patient{Cluster: streams.Config{Brokers: []string{broker}, NATS: nats, Partitions: 8, Replication: 1,
		Logger: slog.New(slog.DiscardHandler)}, Workspace: "default", Agent: "agent-1", HTTP: http.DefaultClient}
}

// examine looks at all of it, for as long as the command does.
func examine(t *testing.T, p Patient) Diagnosis {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d, err := Examine(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// finds must say that something is wrong, and holds one finding; changes are made to what is looked at.
func (i *ill) finds(part, says, fix string, changes ...func(*Patient)) {
	i.t.Helper()
	at := i.at
	for _, change := range changes {
		change(&at)
	}
	d := examine(i.t, at)
	if d.OK || d.Problems == 0 {
		i.t.Errorf("%+v", d)
	}
	d.holds(i.t, part, levelProblem, says, fix)
	for _, f := range d.Findings {
		if strings.Contains(f.Fix, "kafka-") && !strings.Contains(f.Fix, "sh --bootstrap-server "+i.at.Cluster.Brokers[0]) ||
			strings.Contains(f.Fix, "kcat") && !strings.Contains(f.Fix, "kcat -b "+i.at.Cluster.Brokers[0]) {
			i.t.Errorf("a fix that does not say of which Kafka: %s", f.Fix)
		}
	}
}

func (i *ill) must(err error) {
	i.t.Helper()
	if err != nil {
		i.t.Fatal(err)
	}
}

func (i *ill) produce(topic, key string, value []byte) {
	i.t.Helper()
	r := &kgo.Record{Topic: topic, Partition: topology.PartitionOf(key, 8), Key: []byte(key), Value: value}
	i.must(i.kafka.ProduceSync(i.t.Context(), r).FirstErr())
}

// TestDoctorCluster seeds what can be wrong with a cluster, and sees each with what fixes it.
func TestDoctorCluster(t *testing.T) {
	i := newIll(t)
	ctx := t.Context()
	i.finds("groups", "no sequencer runs", "hence streams --brokers")
	examine(t, i.at).follows(t, "no sequencer runs", "HENCE_DECISIONS is not there") // the processors make it
	i.finds("nats", "127.0.0.1:1", "--nats", func(p *Patient) { p.Cluster.NATS = "nats://127.0.0.1:1" })
	i.finds("topics", "replicas", "kafka-reassign-partitions.sh --bootstrap-server", func(p *Patient) {
		p.Cluster.Replication = 3
	})

	i.seq(1)
	i.seq(3)
	i.finds("decisions", "between 1 and 3", "--delete --group hence-sequencer &&")
	i.produce(topology.TopicParked, "w", []byte("?"))
	i.finds("parked", "1 records could not be read",
		`echo '{"version":1,"partitions":[{"topic":"hence.parked","partition":`) // then they are cleared

	value := "1000"
	set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}
	_, err := i.admin.AlterTopicConfigs(ctx, set, topology.TopicIntents)
	i.must(err)
	i.finds("topics", "retention.ms is 1000", " --alter --topic hence.intents --add-config retention.ms=")

	_, err = i.admin.DeleteTopics(ctx, topology.TopicHashes, topology.TopicResidue)
	i.must(err)
	_, err = i.admin.CreateTopic(ctx, 4, 1, nil, topology.TopicHashes)
	i.must(err)
	i.finds("topics", "hence.hashes: 4 partitions where all topics must have 8", "delete the topic and run:")
	i.finds("topics", "hence.residue: it does not exist", "hence topics create")

	i.strangeStream()
	i.finds("nats", "another log", "hence streams recreates it")
	i.finds("clock", "ahead of ours", "NTP")
}

// TestDoctorUnseenStream holds that NATS is not called well when its stream was not seen.
func TestDoctorUnseenStream(t *testing.T) {
	found := &checkup{}
	sayNATS(found, &inspect.Report{NATS: inspect.NATSFact{Connected: true, JetStream: true, Error: "timeout"}}, nil)
	if len(found.all) != 0 {
		t.Errorf("it says %+v", found.all)
	}
}

// TestDoctorLag holds that records which rest with the states of idle workspaces are neither a problem nor said to be
// unread, and that more of them are a problem.
func TestDoctorLag(t *testing.T) {
	say := func(each int64) *checkup {
		g := inspect.GroupFact{Name: "hence-sequencer", State: "Stable", Members: make([]inspect.MemberFact, 1)}
		for p := range int32(8) {
			g.Lags = append(g.Lags, inspect.PartitionLag{Partition: p, Lag: each})
		}
		found := &checkup{}
		sayGroups(found, &inspect.Report{Groups: []inspect.GroupFact{g}}, nil)
		return found
	}
	for each, want := range map[int64]Finding{
		4096:       {Level: levelOK, Says: "hence-sequencer is Stable with 1 member, 32768 records not committed yet"},
		maxLag + 1: {Level: levelProblem, Says: "hence-sequencer (Stable) is 10001 records behind in a partition"},
	} {
		if got := say(each).all; len(got) != 1 || got[0].Level != want.Level || got[0].Says != want.Says {
			t.Errorf("%d of each partition: %+v, want %+v", each, got, want)
		}
	}
}

// TestDoctorNothing holds that doctor answers, and says what to do, when nothing is there at all.
func TestDoctorNothing(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	d := examine(t, patient("127.0.0.1:1", "nats://127.0.0.1:1"))
	if d.OK {
		t.Error("nothing is there, and nothing is wrong")
	}
	d.holds(t, "brokers", levelProblem, "127.0.0.1:1", "--brokers")
	d.holds(t, "nats", levelProblem, "127.0.0.1:1", "--nats")
	for _, f := range d.Findings {
		if f.Level == levelProblem && f.Fix == "" || f.Says == "" || f.Part == "" {
			t.Errorf("a problem without a way out: %+v", f)
		}
	}
}

// seq publishes a decision of workspace w, as if a processor had.
func (i *ill) seq(seq sequencer.Seq) {
	i.t.Helper()
	value, err := topology.EncodeCloudEvent(&sequencer.Outcome{Workspace: "w", Seq: seq, Kind: sequencer.OutcomeCommitted,
		Tx: "a.1.1", Agent: "a"}, time.Now(), "")
	i.must(err)
	i.produce(topology.TopicDecisions, "w", value)
}

// strangeStream makes the decision stream of another log, with a message of a publisher whose clock is an hour ahead.
func (i *ill) strangeStream() {
	i.t.Helper()
	conn, err := nats.Connect(i.at.Cluster.NATS)
	i.must(err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	i.must(err)
	_, err = js.CreateStream(i.t.Context(), jetstream.StreamConfig{Name: topology.DecisionStream,
		Subjects: []string{topology.DecisionSubjects}, Storage: jetstream.MemoryStorage,
		Metadata: map[string]string{"hence-log": "another"}})
	i.must(err)
	m := nats.NewMsg(topology.DecisionSubject("w"))
	m.Header.Set("Hence-At-Ms", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
	_, err = js.PublishMsg(i.t.Context(), m)
	i.must(err)
}
