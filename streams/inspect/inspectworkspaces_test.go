package inspect_test

import (
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/inspect"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// A report names the logic of each workspace, and the shards that hold something under a name that is not in NFC.
func TestInspectWorkspaces(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann") // its join says nothing of a logic: the first one
	for _, name := range []string{"caf%C3%A9", "cafe%CC%81", "e%CC%81", "o%CC%88", "plain"} {
		w.Decided(v, ann.Write(name, "x"))
	}
	w.Decided(v, ann.Write("o%CC%88", "")) // given up
	w.Complete(v, "shop")
	other := w.Follow(c, "office")
	in := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "bob",
		Join: &sequencer.Join{ID: "j", Logic: sequencer.Logic}}
	if _, err := c.Append(w.Context(), "office", in); err != nil {
		t.Fatal(err)
	}
	w.Complete(other, "office")
	want := []sequencer.Scope{"shard:/cafe%CC%81", "shard:/e%CC%81"}
	var r *inspect.Report
	w.Until("the workspaces are reported", func() bool {
		r, _ = w.Inspect(w.Cfg)
		return len(r.Workspaces) == 2 && r.Workspaces[0].Logic != 0 && r.Workspaces[1].Logic != 0 &&
			slices.Equal(r.Workspaces[1].OtherNames, want)
	})
	if office, shop := r.Workspaces[0], r.Workspaces[1]; office.Name != "office" || office.Logic != sequencer.Logic ||
		len(office.OtherNames) != 0 || shop.Name != "shop" || shop.Logic != 1 || shop.MoreNames != 0 ||
		len(r.NamesUnread) != 0 {
		t.Errorf("the report: %+v, unread %v", r.Workspaces, r.NamesUnread)
	}
}
