package streams_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

func residueOf(workspace string, index uint32) *topology.Residue {
	return &topology.Residue{Workspace: workspace, Tx: "t", Index: index, Agent: "ann", Tool: "mail.send",
		Class: sequencer.ClassIrreversible, Result: sequencer.ResultUnresolved, Tries: 1, State: topology.ResidueOpen}
}

// The last record of an effect counts, the newest comes first, other workspaces and what cannot be read stay out, and
// a list that is not whole says so.
func TestResidue(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	c := w.Dial(w.Cfg)
	if list, err := c.Residue(w.Context(), "shop", 10); err != nil || len(list) != 0 {
		t.Fatalf("of an empty topic: %v, %v", list, err)
	}
	publish := func(r *topology.Residue) {
		t.Helper()
		if err := c.PublishResidue(w.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint32(5) {
		publish(residueOf("shop", i))
		publish(residueOf("bank", i))
	}
	accepted := residueOf("shop", 1)
	accepted.State, accepted.Note = topology.ResidueAccepted, "paid by hand"
	publish(accepted)
	cl := w.Kafka()
	w.Put(cl, topology.TopicResidue, "shop|t|9", []byte("broken"))
	w.Put(cl, topology.TopicResidue, "shop|t|2", nil)

	list, err := c.Residue(w.Context(), "shop", 10)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range list {
		got += fmt.Sprintf("%s/%d=%s ", r.Workspace, r.Index, r.State)
	}
	if want := "shop/1=accepted shop/4=open shop/3=open shop/0=open "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	list, err = c.Residue(w.Context(), "bank", 2)
	if !errors.Is(err, streams.ErrTruncated) || len(list) != 2 || list[0].Index != 4 || list[1].Index != 3 {
		t.Errorf("the newest two: %v, %v", list, err)
	}
	if _, err := c.Residue(w.Context(), "No Workspace", 2); err == nil {
		t.Error("residue of what is no workspace")
	}
	if err := c.PublishResidue(w.Context(), &topology.Residue{Workspace: "shop"}); err == nil {
		t.Error("a residue of nothing was published")
	}
}

// A partition whose records were all deleted is empty; they are not waited for.
func TestResidueOfAPartitionThatWasCut(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	c := w.Dial(w.Cfg)
	if err := c.PublishResidue(w.Context(), residueOf("shop", 0)); err != nil {
		t.Fatal(err)
	}
	cut := kadm.Offsets{}
	cut.AddOffset(topology.TopicResidue, 0, 1, -1)
	if _, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), cut); err != nil {
		t.Fatal(err)
	}
	if list, err := c.Residue(w.Context(), "shop", 10); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// A broker that cannot say whether it took a residue leaves its caller with "unknown"; a second write leaves one row.
func TestResidueOfUnknownFate(t *testing.T) {
	w := teststreams.New(t)
	c := w.Dial(w.Cfg)
	fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topology.TopicResidue,
		Err: kerr.NotEnoughReplicasAfterAppend, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.PublishResidue(ctx, residueOf("shop", 0)); !errors.Is(err, streams.ErrUnknown) {
		t.Fatalf("publish: %v", err)
	}
	fault.Remove()
	if err := c.PublishResidue(w.Context(), residueOf("shop", 0)); err != nil {
		t.Fatal(err)
	}
	if list, err := c.Residue(w.Context(), "shop", 10); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
