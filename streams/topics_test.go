package streams_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/streams/processor"
	"github.com/hence-dev/hence/topology"
)

// VerifyTopics says what is wrong and what to run.
func TestVerifyTopics(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 4 })
	cfg := w.Cfg
	if problems, err := streams.VerifyTopics(t.Context(), cfg); err != nil || len(problems) > 0 {
		t.Fatalf("fresh topics: %v, %v", problems, err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	table := topology.TableOf(topology.GroupFrontier)
	for _, name := range []string{topology.TopicParked, topology.TopicHashes, table} {
		if _, err := admin.DeleteTopic(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.CreateTopic(t.Context(), 3, 1, nil, topology.TopicParked); err != nil {
		t.Fatal(err)
	}
	week := "604800000"
	if _, err := admin.CreateTopic(t.Context(), 4, 1, map[string]*string{"retention.ms": &week}, table); err != nil {
		t.Fatal(err)
	}
	problems, err := streams.VerifyTopics(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	for _, p := range problems {
		if p.Fix == "" || p.What == "" {
			t.Errorf("a problem without a way out: %+v", p)
		}
		found[p.Topic]++
	}
	if found[topology.TopicHashes] != 1 || found[topology.TopicParked] == 0 || found[table] < 2 || len(found) != 3 {
		t.Errorf("found %v", problems)
	}
	if err := processor.Run(t.Context(), cfg); err == nil {
		t.Error("Run started on topics that lose state")
	}
}

// A cluster may ask for more acknowledgements than a client that does not know its size.
func TestStricterTopics(t *testing.T) {
	w := teststreams.New(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	set := func(n string) []streams.Problem {
		if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(),
			[]kadm.AlterConfig{{Name: "min.insync.replicas", Value: &n}}, topology.TopicIntents); err != nil {
			t.Fatal(err)
		}
		problems, err := streams.VerifyTopics(t.Context(), w.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		return problems
	}
	if p := set("2"); len(p) > 0 {
		t.Errorf("stricter than asked for: %v", p)
	}
	if p := set("0"); len(p) != 1 {
		t.Errorf("weaker than asked for: %v", p)
	}
}

// TestShortRetention holds that nothing starts on a topic that drops what a decision still needs, with what that
// costs. What is enough, though not as asked for, is no such problem.
func TestShortRetention(t *testing.T) {
	w := teststreams.New(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	costs := func(retention time.Duration) (found []streams.Problem) {
		ms := strconv.FormatInt(retention.Milliseconds(), 10)
		if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(),
			[]kadm.AlterConfig{{Name: "retention.ms", Value: &ms}}, topology.TopicDecisions); err != nil {
			t.Fatal(err)
		}
		problems, err := streams.VerifyTopics(t.Context(), w.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if strings.Contains(p.What, "too short") {
				found = append(found, p)
			}
		}
		return found
	}
	const day = 24 * time.Hour
	if found := costs(8*day - time.Millisecond); len(found) != 1 || found[0].Topic != topology.TopicDecisions ||
		!strings.Contains(found[0].What, "must keep 8 days") || !strings.Contains(found[0].Fix, "retention.ms") {
		t.Errorf("less than 8 days: %v", found)
	}
	err = processor.Run(t.Context(), w.Cfg)
	if !errors.Is(err, streams.ErrTopics) || !strings.Contains(err.Error(), "T must be refused in H") {
		t.Errorf("Run started on a topic that drops what is needed: %v", err)
	}
	if err := w.Dial(w.Cfg).Ready(w.Context())["topics"]; !errors.Is(err, streams.ErrTopics) {
		t.Errorf("a sidecar is ready beside a topic that drops what is needed: %v", err)
	}
	if found := costs(8 * day); len(found) != 0 {
		t.Errorf("8 days: %v", found)
	}
	if found := costs(-time.Millisecond); len(found) != 0 {
		t.Errorf("forever: %v", found)
	}
}
