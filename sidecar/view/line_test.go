package view

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// The line says which seal is on its way that writes a shard, until it leaves.
func TestLine(t *testing.T) {
	v := New("w", 0, 0)
	shards := func(list ...sequencer.Scope) []sequencer.Scope { return list }
	if by := v.Enter("a", shards("shard:/x"), shards("shard:/x", "shard:/d/1")); by != "" {
		t.Errorf("the first one waits for %s", by)
	}
	for _, reads := range [][]sequencer.Scope{shards("shard:/x"), shards("shard:/y", "shard:/d/1")} {
		if by := v.Enter("b", reads, nil); by != "a" || v.Ahead(reads) != "a" {
			t.Errorf("%v: it goes on before %q", reads, by)
		}
	}
	if by := v.Enter("a", shards("shard:/x"), nil); by != "" {
		t.Errorf("it waits for %s, and is in the line", by)
	}
	if by := v.Enter("c", shards("shard:/e"), shards("shard:/x")); by != "" {
		t.Errorf("it waits for %s, of which it reads nothing", by)
	}
	v.Leave("a")
	if by := v.Ahead(shards("shard:/d/1")); by != "" || v.InLine("a") {
		t.Errorf("%q is ahead, and has left", by)
	}
	if by := v.Ahead(shards("shard:/x")); by != "c" {
		t.Errorf("%q is ahead, and c writes it", by)
	}
	v.Leave("c")
	if len(v.line.places)+len(v.line.writers) != 0 {
		t.Errorf("left behind: %v, %v", v.line.places, v.line.writers)
	}
}

// A decision ends the place of the seal that it names before anybody is told of it, and the agent that it concerns is
// told first.
func TestDecisionEndsThePlace(t *testing.T) {
	v := New("w", 0, 0)
	var told []string
	for _, agent := range []string{"b", "a", "c"} {
		defer v.Watch(Watcher{Agent: agent, Observe: func(o *sequencer.Outcome) {
			if told = append(told, agent); v.InLine(o.Tx) {
				t.Errorf("%s is told of %s, and it is in the line", agent, o.Tx)
			}
		}})()
	}
	for _, o := range chained(writes(20)...) {
		told = nil
		v.Enter(o.Tx, nil, []sequencer.Scope{"shard:/x"})
		if _, err := v.advance(o); err != nil {
			t.Fatal(err)
		}
		if len(told) != 3 || told[0] != o.Agent {
			t.Errorf("decision %d of agent %s: told are %v", o.Seq, o.Agent, told)
		}
	}
}
