package states

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// A difference is fixed by what the replicas say about its seq, however many other states they said before.
func TestEndOfAnOldDifference(t *testing.T) {
	c := New(streams.Config{Brokers: []string{"127.0.0.1:1"}}, "log")
	say := func(replica, workspace string, seq sequencer.Seq, hash byte) {
		c.Take(&topology.StateHash{Workspace: workspace, Seq: seq, Replica: replica, Log: "log", Hash: sequencer.Hash{hash}})
	}
	others := func() {
		for seq := range sequencer.Seq(maxStates + 1) {
			say(topology.ReplicaA, "other", seq+1, 0)
		}
	}
	say(topology.ReplicaA, "shop", 256, 1)
	say(topology.ReplicaB, "shop", 256, 2)
	if c.Differences()["shop"] == nil {
		t.Fatal("no difference is seen")
	}
	others()
	say(topology.ReplicaA, "shop", 256, 3) // both were wrong, and are fixed one after the other
	if c.Differences()["shop"] == nil {
		t.Error("the difference is forgotten though both differ still")
	}
	others()
	say(topology.ReplicaB, "shop", 256, 3)
	if err := c.Differences()["shop"]; err != nil {
		t.Errorf("the replicas agree, and this is said: %v", err)
	}
	if len(c.states) > maxStates || len(c.order) > maxStates {
		t.Errorf("%d states are remembered in %d places", len(c.states), len(c.order))
	}
}
