package topology

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

func TestTopicsAreValid(t *testing.T) {
	for _, o := range []Options{{}, {Partitions: 1}, {Partitions: 64, Replication: 3, Replica: "b", Anomalies: true},
		{IntentsRetentionMs: Forever, DecisionsRetentionMs: Forever, EventsRetentionMs: 30 * dayMs}} {
		topics := Topics(o)
		if err := Validate(topics); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		for _, x := range topics {
			c := x.Config()
			if c["unclean.leader.election.enable"] != "false" || c["cleanup.policy"] != string(x.Cleanup) {
				t.Errorf("%s: %v", x.Name, c)
			}
			if x.IsTable() && (c["retention.ms"] != "-1" || c["retention.bytes"] != "-1" ||
				c["cleanup.policy"] != "compact,delete" ||
				!strings.HasSuffix(x.Name, GroupOf("", o.Replica)+"-table")) {
				t.Errorf("table %s: %v", x.Name, c)
			}
			if want := map[bool]string{true: "2", false: "1"}[o.Replication >= 2]; c["min.insync.replicas"] != want {
				t.Errorf("%s: min.insync.replicas %s with replication %d", x.Name, c["min.insync.replicas"], o.Replication)
			}
		}
	}
}

// TestTopicsTogether holds what depends on more than one topic.
func TestTopicsTogether(t *testing.T) {
	byName := map[string]Topic{}
	for _, x := range Topics(Options{}) {
		byName[x.Name] = x
	}
	if len(byName) != 10 {
		t.Errorf("%d topics, want 10", len(byName))
	}
	if byName[TopicParked].MaxMessageBytes <= byName[TopicDecisions].MaxMessageBytes {
		t.Error("a record of the greatest size could not be parked with its headers")
	}
	if byName[TopicSeals].RetentionMs != byName[TopicDecisions].RetentionMs {
		t.Error("decisions would be kept, and what an audit holds them against not")
	}
	if byName[TopicEvents].RetentionMs != Forever {
		t.Error("shard content by reference would be lost")
	}
	if r := byName[TopicResidue]; r.Cleanup != CleanupCompact || r.RetentionMs != Forever || r.IsTable() ||
		MaxResidueBytes >= r.MaxMessageBytes {
		t.Errorf("residue would be dropped or refused: %+v", r)
	}
	if byName[TopicIntents].Partitions != DefaultPartitions {
		t.Errorf("%d partitions by default", byName[TopicIntents].Partitions)
	}
}

func TestValidateFinds(t *testing.T) {
	for want, damage := range map[string]func([]Topic){
		"power of two":          func(ts []Topic) { ts[2].Partitions = 6 },
		"give all the same":     func(ts []Topic) { ts[2].Partitions = 16 },
		"is there twice":        func(ts []Topic) { ts[2].Name = ts[1].Name },
		"the name must be":      func(ts []Topic) { ts[2].Name = "Hence.decisions" },
		"at least 1 copy":       func(ts []Topic) { ts[2].Replication = 0 },
		"could be acknowledged": func(ts []Topic) { ts[2].MinInsyncReplicas = 2 },
		"loses acknowledged":    func(ts []Topic) { ts[2].Replication = 3 },
		"retention.ms":          func(ts []Topic) { ts[2].RetentionMs = 5 },
		"needs retention.ms -1": func(ts []Topic) { ts[len(ts)-3].RetentionMs = 7 * dayMs },
		"segment.bytes":         func(ts []Topic) { ts[2].SegmentBytes = 0 },
		"max.message.bytes":     func(ts []Topic) { ts[2].MaxMessageBytes = 0 },
		"needs cleanup.policy":  func(ts []Topic) { ts[len(ts)-1].Cleanup = CleanupDelete },
		"take delete, compact":  func(ts []Topic) { ts[len(ts)-3].Cleanup = "none" },
		"compression":           func(ts []Topic) { ts[len(ts)-3].Compression = "zip" },
	} {
		topics := Topics(Options{})
		damage(topics)
		if err := Validate(topics); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not found: %v", want, err)
		}
	}
}

func TestPrint(t *testing.T) {
	topics := Topics(Options{Replica: "b"})
	var text strings.Builder
	if err := Print(&text, topics); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TOPIC", TopicIntents, "hence-frontier-b-table", "90 days", "365 days",
		"forever", "64 MiB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("not printed: %s\n%s", want, text.String())
		}
	}
	b, err := json.Marshal(topics)
	if err != nil {
		t.Fatal(err)
	}
	var back []Topic
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, topics) {
		t.Errorf("JSON came back as %+v", back)
	}
}

func TestValidWorkspace(t *testing.T) {
	for _, name := range []string{"default", "a", "0", "a-b_c", strings.Repeat("x", 63)} {
		if err := ValidWorkspace(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "-a", "_a", "A", "a.b", "a|b", "a b", "é", "a/b", "a*", "a>",
		strings.Repeat("x", 64)} {
		if ValidWorkspace(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestSplitByScope(t *testing.T) {
	o := sampleOutcomes()[4]
	moves := SplitByScope(o)
	at := map[sequencer.Scope]ScopeMove{}
	for _, m := range moves {
		if m.Workspace != o.Workspace || m.Seq != o.Seq || m.Tx != o.Tx || m.Epoch != o.Epoch || m.Kind != o.Kind {
			t.Errorf("%s: %+v is of another decision", m.Key(), m)
		}
		at[m.Scope] = m
	}
	if len(at) != len(moves) || len(moves) != 6 {
		t.Fatalf("%d moves of %d scopes: %+v", len(moves), len(at), moves)
	}
	card, order := at["card:/4711"], at["shard:/orders/17"]
	if len(card.Added) != 1 || len(card.Ended) != 1 || card.Write != nil || card.Last() {
		t.Errorf("card: %+v", card)
	}
	if order.Write == nil || order.Write.Former.Tx != "tx-a" || order.Shard == nil ||
		order.Key() != "default|shard:/orders/17" {
		t.Errorf("order: %+v", order)
	}
	last := moves[len(moves)-1]
	if !last.Last() || last.Key() != "default|" || last.Chain != o.Chain || last.Scopes != 5 || last.Time != o.Time ||
		last.Floor != o.Floor {
		t.Errorf("last: %+v", last)
	}
	if moves := SplitByScope(sampleOutcomes()[10]); len(moves) != 1 || !moves[0].Last() || moves[0].Scopes != 0 {
		t.Errorf("a join: %+v", moves)
	}
}
