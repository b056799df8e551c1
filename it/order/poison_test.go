package order

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/it/traffic"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// poisonNear is the size of records that a broker still takes and no reader wants.
const poisonNear = 900 << 10

// TestPoison puts records that cannot be read into each topic that is read: every one is parked with the place
// that it came from, and processing goes on.
func TestPoison(t *testing.T) {
	d := harness.Deploy(t, harness.Start(t))
	rec := traffic.NewRecorder()
	sidecars := d.Sidecars(t, 3)
	plan := traffic.Plan{Transactions: 15, Scopes: 10, Reads: 2, Writes: 1, Think: time.Millisecond, Seed: 4}
	run(t, sidecars, plan, rec)
	want := map[string]string{}
	for topic, key := range map[string]string{
		topology.TopicIntents:   d.Workspace,
		topology.TopicEvents:    topology.EventKey(d.Workspace, "nobody.1"),
		topology.TopicDecisions: d.Workspace,
	} {
		for name, value := range poisons(t, d.Workspace, topic) {
			partition, offset := harness.Produce(t, d.Brokers, topic, key, value)
			want[place(topic, partition, offset)] = name
		}
		run(t, sidecars, plan, rec)
	}
	harness.Eventually(t, 30*time.Second, func() error {
		parked := parkedPlaces(t, d)
		for at, name := range want {
			if parked[at] == "" {
				return fmt.Errorf("%s at %s is not parked; parked are %v", name, at, parked)
			}
		}
		return nil
	})
	parked := parkedPlaces(t, d)
	for at, name := range want {
		t.Logf("%s at %s: %s", name, at, parked[at])
	}
	run(t, sidecars, plan, rec)
	attempts := rec.Attempts()
	outcomes, _ := harness.DecisionsAmong(t, d.Servers, d.Workspace, attempts)
	harness.Holds(t, attempts, outcomes)
	late := d.Sidecar(t, "late") // its view starts behind the poison
	if links := chainOf(t, late); len(links) == 0 {
		t.Error("a late sidecar has no chain")
	}
	if n := d.Count(t, "hence_processor_restarts_total"); n != 0 {
		t.Errorf("processors were built again %v times", n)
	}
	t.Logf("%s; %d records parked, counted %v times", rec.Figures(), len(want), d.Count(t, "hence_records_parked_total"))
}

// poisons are records of one topic that its readers cannot use.
func poisons(t *testing.T, workspace, topic string) map[string][]byte {
	t.Helper()
	foreign, err := topology.EncodeIntent(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &sequencer.TickMark{N: 1}})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{
		"garbage": []byte("\x00\xff{not a record"), "empty": {},
		"huge": bytes.Repeat([]byte{0xc1}, poisonNear), "of another record": foreign,
	}
	if topic == topology.TopicIntents {
		delete(all, "of another record") // here it is one of ours
	}
	all["of a later version"] = laterVersion(t, topic, foreign)
	return all
}

// laterVersion is a record of a format that this version does not know.
func laterVersion(t *testing.T, topic string, intent []byte) []byte {
	t.Helper()
	if topic == topology.TopicDecisions {
		return []byte(`{"specversion":"1.0","id":"w/1","source":"/workspaces/w","data":{},` +
			`"type":"dev.hence.decision.begun.v9"}`)
	}
	value := bytes.Clone(intent)
	for i := range value { // the version is the first small number in the record
		if value[i] == 1 {
			value[i] = 99
			return value
		}
	}
	t.Fatalf("no version in % x", value)
	return nil
}

func place(topic string, partition int32, offset int64) string {
	return fmt.Sprintf("%s/%d@%d", topic, partition, offset)
}

// parkedPlaces are the places that parked records came from, with the reason.
func parkedPlaces(t *testing.T, d *harness.Deployment) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range harness.ReadTopic(t, d.Brokers, topology.TopicParked, d.Workspace) {
		partition, _ := strconv.ParseInt(harness.Header(r, topology.HeaderParkedPartition), 10, 32)
		offset, _ := strconv.ParseInt(harness.Header(r, topology.HeaderParkedOffset), 10, 64)
		from := place(harness.Header(r, topology.HeaderParkedTopic), int32(partition), offset)
		all[from] = harness.Header(r, topology.HeaderParkedReason)
	}
	return all
}
