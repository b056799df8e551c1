package streams_test

import (
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// A report names the logic of each workspace, and the shards that hold something under a name that is not in NFC.
func TestInspectWorkspaces(t *testing.T) {
	w := newWorld(t)
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann := w.join(c, v, "shop", "ann") // its join says nothing of a logic: the first one
	for _, name := range []string{"caf%C3%A9", "cafe%CC%81", "e%CC%81", "o%CC%88", "plain"} {
		w.decided(v, ann.write(name, "x"))
	}
	w.decided(v, ann.write("o%CC%88", "")) // given up
	w.complete(v, "shop")
	other := w.follow(c, "office")
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "bob",
		Join: &sequencer.Join{ID: "j", Logic: sequencer.Logic}}
	if _, err := c.Append(w.context(), "office", in); err != nil {
		t.Fatal(err)
	}
	w.complete(other, "office")
	want := []sequencer.Scope{"shard:/cafe%CC%81", "shard:/e%CC%81"}
	var r *streams.Report
	w.until("the workspaces are reported", func() bool {
		r, _ = w.inspect(w.cfg)
		return len(r.Workspaces) == 2 && r.Workspaces[0].Logic != 0 && r.Workspaces[1].Logic != 0 &&
			slices.Equal(r.Workspaces[1].OtherNames, want)
	})
	if office, shop := r.Workspaces[0], r.Workspaces[1]; office.Name != "office" || office.Logic != sequencer.Logic ||
		len(office.OtherNames) != 0 || shop.Name != "shop" || shop.Logic != 1 || shop.MoreNames != 0 ||
		len(r.NamesUnread) != 0 {
		t.Errorf("the report: %+v, unread %v", r.Workspaces, r.NamesUnread)
	}
}
