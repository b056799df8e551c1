package topology

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hence-dev/hence/topology/lightcone"
)

// How long the log must be there at least: a retraction puts back what was there before, within the undo horizon; and
// whatever reads the log may be away for a while. Rules may set a longer horizon, and then the topics must keep more.
const (
	undoHorizon   = 7 * 24 * time.Hour // the default of horizon_ticks
	slowestReader = 24 * time.Hour
)

// The places of Hence's data that are no topics.
const (
	PlaceSubjects = "hence.v1.decisions" // a subscription to the NATS subjects alone
	PlaceView     = "view"               // a sidecar's, or that of a client that fills gaps by seq
	PlaceExport   = "export"             // a workspace's decisions up to a seq, in a file
)

// cones are the configurations of Hence's data of one workspace. What orders a workspace is the sequence of its
// intents, and nothing is decided around it: its order respects causes. Across workspaces there is none.
func cones(group func(string) string) []lightcone.Place {
	of := func(closure lightcone.Set, order lightcone.Label, wait lightcone.Wait) lightcone.Config {
		c := lightcone.Config{Closure: closure, Order: order, Wait: wait}
		if order != "" {
			c.Arbitration.Rule = lightcone.Causal
		}
		return c
	}
	everything, none := lightcone.Set{lightcone.Everything}, lightcone.Set(nil)
	whole := of(everything, lightcone.Everything, lightcone.Finite)
	joined := of(none, "object(tx)", lightcone.Finite)
	joined.Confluent = true // each order of its inputs ends in the same row
	table := func(name string) string { return TableOf(group(name)) }
	return []lightcone.Place{
		{Name: TopicIntents, Config: whole, Source: "the log: a workspace is in one partition, ordered by appends"},
		{Name: TopicDecisions, Config: whole, Source: "a function of a prefix of the log, numbered without gaps"},
		{Name: TopicEvents, Config: of(none, "object(tx)", lightcone.Finite),
			Source: "each transaction's own, in the order in which it acted; of two transactions in any order"},
		{Name: TopicParked, Config: of(none, "", lightcone.Finite), Source: "what could not be read, as it came"},
		{Name: TopicResidue, Config: of(none, "object(effect)", lightcone.Finite), Source: "the last record of each effect"},
		{Name: TopicHashes, Config: of(none, "object(replica)", lightcone.Finite), Source: "each replica's, in order"},
		{Name: TopicSeals, Config: of(none, "object(replica)", lightcone.Finite),
			Source: "each group's own, in order, behind the decisions that they seal"},
		{Name: TopicAnomalies, Config: of(none, "", lightcone.Finite),
			Source: "findings in any order, each any number of times"},
		{Name: table(GroupSequencer), Config: whole, Source: "the state after a prefix of the log"},
		{Name: table(GroupClosure), Config: joined,
			Source: "one row for each transaction, from inputs without a common order"},
		{Name: table(GroupFrontier), Config: of(none, "object(scope)", lightcone.Finite),
			Source: "one row for each scope: a prefix only once the view has reached the greatest seq in it"},
		{Name: PlaceSubjects, Config: of(none, "", lightcone.Absent),
			Source: "messages may be missing: fill the gaps by seq"},
		{Name: PlaceView, Config: whole, Source: "decision n+1 is applied only after n"},
		{Name: PlaceExport, Config: of(everything, lightcone.Everything, lightcone.Absent),
			Source: "a prefix of the decisions; it is not applied until it is imported"},
	}
}

// Cones is who reads whom among Hence's own data, with the retention that the topics have. A topic that it does not
// know is left out.
func Cones(topics []Topic) lightcone.Topology {
	replica := ""
	if slices.ContainsFunc(topics, func(t Topic) bool { return t.Group == GroupOf(GroupSequencer, ReplicaB) }) {
		replica = ReplicaB
	}
	group := func(name string) string { return GroupOf(name, replica) }
	t := lightcone.Topology{Places: cones(group)}
	for i := range t.Places {
		t.Places[i].Keeps = coneKeeps(topics, t.Places[i].Name)
	}
	link := func(to string, from ...string) {
		for _, name := range from {
			t.Links = append(t.Links, lightcone.Link{From: name, To: to, Lag: slowestReader})
		}
	}
	link(TableOf(group(GroupSequencer)), TopicIntents)
	link(TopicDecisions, TopicIntents)
	link(TopicHashes, TopicIntents)
	link(TopicSeals, TopicIntents)
	link(TableOf(group(GroupClosure)), TopicDecisions, TopicEvents)
	link(TableOf(group(GroupFrontier)), TopicDecisions)
	link(TopicAnomalies, TopicIntents, TopicDecisions)
	link(PlaceSubjects, TopicDecisions)
	link(PlaceView, TopicDecisions)
	link(PlaceExport, TopicDecisions)
	return t
}

// coneKeeps is the retention of a topic; nil where nothing goes by age.
func coneKeeps(topics []Topic, name string) *lightcone.Retention {
	at := slices.IndexFunc(topics, func(t Topic) bool { return t.Name == name && t.Cleanup == CleanupDelete })
	if at < 0 {
		return nil
	}
	keeps := &lightcone.Retention{Kept: time.Duration(topics[at].RetentionMs) * time.Millisecond}
	if topics[at].RetentionMs < 0 || topics[at].RetentionMs > int64(maxKept/time.Millisecond) {
		keeps.Kept = lightcone.Forever
	}
	if name == TopicIntents || name == TopicDecisions || name == TopicEvents {
		keeps.Open = undoHorizon
	}
	return keeps
}

// maxKept is the longest retention that is counted; beyond it is forever.
const maxKept = 100 * 365 * 24 * time.Hour

// ErrCones is returned by Validate when one of Hence's own readers could not honestly read what it reads, or a topic
// drops what decisions still need.
var ErrCones = errors.New("light cones")

// coneProblems says what is wrong with the topics together, with their real retention.
func coneProblems(topics []Topic) (problems []error) {
	cones := Cones(topics)
	for _, t := range topics {
		if !slices.ContainsFunc(cones.Places, func(p lightcone.Place) bool { return p.Name == t.Name }) {
			problems = append(problems, fmt.Errorf("%w: topic %s has no configuration: say in topology/cones.go what its "+
				"readers may hold", ErrCones, t.Name))
		}
	}
	for _, f := range cones.Check().Findings {
		problems = append(problems, fmt.Errorf("%w: %s", ErrCones, f))
	}
	return problems
}

// ConeSystems are Hence's own places as kinds that a topology may name.
func ConeSystems() (systems []lightcone.System) {
	for _, p := range cones(func(group string) string { return group }) {
		name := p.Name
		if name == PlaceView || name == PlaceExport {
			name = "hence." + name
		}
		systems = append(systems, lightcone.System{Name: name, Config: p.Config, Source: p.Source})
	}
	return systems
}
