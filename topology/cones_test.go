package topology

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/topology/lightcone"
)

// TestCones holds that each topic, table, view and export has its configuration, that all of Hence's own readers can
// read what they read, and what the places carry.
func TestCones(t *testing.T) {
	for _, o := range []Options{{}, {Replica: "b"}} {
		topics := Topics(o)
		cones := Cones(topics)
		report := cones.Check()
		if len(report.Findings) != 0 || len(report.Notes) != 0 {
			t.Errorf("replica %q: %v %v", o.Replica, report.Findings, report.Notes)
		}
		carries := map[string]string{}
		for i, p := range cones.Places {
			carries[p.Name] = report.Carries[i].String()
			if p.Source == "" {
				t.Errorf("%s: nothing says where its configuration is from", p.Name)
			}
		}
		for _, topic := range topics {
			if carries[topic.Name] == "" {
				t.Errorf("%s has no configuration", topic.Name)
			}
		}
		for name, want := range map[string]string{
			TopicIntents: "(explicit, all)", TopicDecisions: "(explicit, all)", PlaceView: "(explicit, all)",
			PlaceExport: "(explicit, all)", PlaceSubjects: "(none, trivial)",
			TableOf(GroupOf(GroupFrontier, o.Replica)): "(object(scope), object(scope))",
			TableOf(GroupOf(GroupClosure, o.Replica)):  "(object(tx), object(tx))",
		} {
			if carries[name] != want {
				t.Errorf("%s carries %s, want %s", name, carries[name], want)
			}
		}
	}
}

// TestShortRetention holds that a topology of ours is refused when one topic keeps too little, to the millisecond, and
// that the refusal says how long it must keep and why.
func TestShortRetention(t *testing.T) {
	for name, needed := range map[string]time.Duration{TopicIntents: 8 * 24 * time.Hour,
		TopicDecisions: 8 * 24 * time.Hour, TopicEvents: 8 * 24 * time.Hour, TopicHashes: 0} {
		for _, c := range []struct {
			kept  time.Duration
			short bool
		}{{needed - time.Millisecond, needed > 0}, {max(needed, 24*time.Hour), false}, {2 * maxKept, false}} {
			topics := Topics(Options{})
			at := slices.IndexFunc(topics, func(x Topic) bool { return x.Name == name })
			if topics[at].RetentionMs = c.kept.Milliseconds(); needed == 0 && c.kept < 0 {
				topics[at].RetentionMs = Forever
			}
			err := Validate(topics)
			if errors.Is(err, ErrCones) != c.short {
				t.Errorf("%s keeps %v: %v", name, c.kept, err)
			}
			if c.short && (!strings.Contains(err.Error(), "the retention of "+name+" is too short") ||
				!strings.Contains(err.Error(), "must keep 8 days") || !strings.Contains(err.Error(), "be refused in H")) {
				t.Errorf("%s keeps %v: %v", name, c.kept, err)
			}
		}
	}
}

// TestLongRetention holds that a retention is long also where its nanoseconds are more than a number holds, and would
// count as none.
func TestLongRetention(t *testing.T) {
	topics := Topics(Options{})
	at := slices.IndexFunc(topics, func(x Topic) bool { return x.Name == TopicIntents })
	topics[at].RetentionMs = 1<<64/1_000_000 + 1
	if err := Validate(topics); errors.Is(err, ErrCones) {
		t.Error(err)
	}
}

// TestUnknownTopic holds that a topic without a configuration is refused: what its readers may hold is unknown.
func TestUnknownTopic(t *testing.T) {
	topics := Topics(Options{})
	topics[0].Name = "hence.new"
	if err := Validate(topics); !errors.Is(err, ErrCones) || !strings.Contains(err.Error(), "hence.new") {
		t.Errorf("a new topic: %v", err)
	}
}

// TestReadersOfOurs holds who can read Hence's data honestly, and who cannot.
func TestReadersOfOurs(t *testing.T) {
	all := lightcone.Config{Order: lightcone.Everything, Arbitration: lightcone.Arbitration{Rule: lightcone.Causal}}
	for name, want := range map[string]bool{TopicDecisions: true, PlaceView: true, PlaceSubjects: false,
		TableOf(GroupFrontier): false, TopicEvents: false} {
		cones := Cones(Topics(Options{}))
		cones.Places = append(cones.Places, lightcone.Place{Name: "consumer", Config: all})
		cones.Links = append(cones.Links, lightcone.Link{From: name, To: "consumer"})
		found := cones.Check().Findings
		if (len(found) == 0) != want {
			t.Errorf("a consumer of %s that wants one order: %v", name, found)
		}
		if !want && (found[0].From != name || found[0].Lost == "" || found[0].Cure == "") {
			t.Errorf("a consumer of %s: %+v", name, found[0])
		}
	}
	for _, s := range ConeSystems() {
		if s.Source == "" {
			t.Errorf("%s has no source", s.Name)
		}
	}
}
