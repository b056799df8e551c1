package journal

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// All conversations together name so many reads: then the longest one's become one of everything, at the oldest view.
func TestLooseReadsOfAllConversations(t *testing.T) {
	all := Talks{}
	for i := range maxTalks {
		talk := fmt.Sprint("c", i/100)
		all.Add(talk, sequencer.Read{Scope: sequencer.Scope(fmt.Sprintf("shard:/%d", i)), View: sequencer.Seq(100 + i)})
	}
	if n := all.Reads(); n != maxTalks {
		t.Fatalf("%d reads, %d are allowed", n, maxTalks)
	}
	for i := range 20 {
		all.Add("long", sequencer.Read{Scope: sequencer.Scope(fmt.Sprintf("shard:/long/%d", i)), View: 1})
	}
	if n := all.Reads(); n > maxTalks {
		t.Fatalf("%d reads, %d are allowed", n, maxTalks)
	}
	if len(all["long"]) != 20 || len(all["c0"]) != 1 || all["c0"][0].Scope != api.EveryShard || all["c0"][0].View != 100 {
		t.Fatalf("the one that read: %d, the longest: %v", len(all["long"]), all["c0"])
	}
	if n := all.Oldest(50); n != 1 {
		t.Fatalf("the oldest view is %d", n)
	}
}
