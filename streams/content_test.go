package streams_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// chainOf are the events of a content of some parts, and the reference that a seal has of them.
func chainOf(parts int) ([]*topology.Event, sequencer.Ref, []byte) {
	var content []byte
	for i := range parts {
		content = append(content, bytes.Repeat([]byte{byte('a' + i)}, sequencer.ChunkBytes)...)
	}
	content = content[:len(content)-5]
	ref := sequencer.Ref{Size: int64(len(content)), SHA256: sha256.Sum256(content), Chunks: uint32(parts)}
	var list []*topology.Event
	for at := 0; at < len(content); at += sequencer.ChunkBytes {
		part := content[at:min(at+sequencer.ChunkBytes, len(content))]
		list = append(list, &topology.Event{Kind: topology.EventContent, Workspace: "shop", Tx: "t", Agent: "ann",
			Incarnation: 3, Index: uint64(10 + len(list)), Content: part, Size: int64(len(part)),
			SHA256: sha256.Sum256(part), Chunk: &topology.Chunk{At: int64(at), Of: ref.SHA256}})
	}
	return list, ref, content
}

// TestChainOfEvents: what a topic may have between the parts of a content changes nothing; what is missing or is not
// what was written ends it, before the last part is given.
func TestChainOfEvents(t *testing.T) {
	other := func(how func(*topology.Event)) func([]*topology.Event) *topology.Event {
		return func(list []*topology.Event) *topology.Event {
			ev := *list[1]
			chunk := *ev.Chunk
			ev.Chunk = &chunk
			how(&ev)
			return &ev
		}
	}
	same := []int{0, 1, 2} // the places of the parts; 9: what between says
	for name, c := range map[string]struct {
		order   []int
		between func([]*topology.Event) *topology.Event
		want    string
	}{
		"alone":           {same, nil, ""},
		"a second copy":   {[]int{0, 1, 1, 0, 2}, nil, ""},
		"nothing of ours": {[]int{0, 9, 1, 2}, func([]*topology.Event) *topology.Event { return nil }, ""},
		"a read": {[]int{0, 9, 1, 2}, other(func(ev *topology.Event) {
			ev.Kind, ev.Content = topology.EventRead, []byte("evil")
		}), ""},
		"a whole content": {[]int{0, 9, 1, 2}, other(func(ev *topology.Event) { ev.Chunk = nil }), ""},
		// Of a former try of the same write; it would be taken for proof that the part before it is lost.
		"a late part": {[]int{0, 9, 1, 2}, other(func(ev *topology.Event) {
			ev.Index, ev.Chunk.At = 9, 2*sequencer.ChunkBytes
		}), ""},
		"another transaction's": {[]int{0, 9, 1, 2}, other(func(ev *topology.Event) {
			ev.Tx, ev.Content = "u", []byte("evil")
		}), ""},
		"another incarnation's": {[]int{0, 9, 1, 2}, other(func(ev *topology.Event) {
			ev.Incarnation, ev.Content = 4, []byte("evil")
		}), ""},
		"another workspace's": {[]int{0, 9, 1, 2}, other(func(ev *topology.Event) {
			ev.Workspace, ev.Content = "bank", []byte("evil")
		}), ""},
		"another content's": {[]int{0, 9, 1, 2}, other(func(ev *topology.Event) {
			ev.Chunk.Of[0]++
			ev.Content = []byte("evil")
		}), ""},
		"no first": {[]int{1, 2}, nil, "the part before it is missing"},
		"a read there": {[]int{9, 1, 2}, other(func(ev *topology.Event) { ev.Kind = topology.EventRead }),
			"there is something else"},
		"no second": {[]int{0, 2}, nil, "the part before it is missing"},
		"no last":   {[]int{0, 1}, nil, "it is missing"},
		"none":      {nil, nil, "nothing is there"},
		"other one": {[]int{9, 1, 2}, other(func(ev *topology.Event) { ev.Chunk.At, ev.Workspace = 0, "bank" }),
			"another workspace"},
		"other hash": {[]int{9, 1, 2}, other(func(ev *topology.Event) { ev.Chunk.At = 0; ev.Chunk.Of[0]++ }),
			"another content"},
		"damaged": {[]int{0, 9, 2}, other(func(ev *topology.Event) { ev.Content = bytes.ToUpper(ev.Content) }),
			"it is damaged"},
		"short": {[]int{0, 9, 2}, other(func(ev *topology.Event) {
			ev.Content = ev.Content[1:]
			ev.SHA256 = sha256.Sum256(ev.Content)
		}), "it is damaged"},
		"exchanged": {[]int{0, 9, 2}, other(func(ev *topology.Event) {
			ev.Content = bytes.ToUpper(ev.Content)
			ev.SHA256 = sha256.Sum256(ev.Content)
		}), "together they are not what was written"},
	} {
		list, ref, content := chainOf(3)
		ref.Offset, ref.Last = 100, 100+int64(len(c.order))-1
		var got []byte
		chain := streams.NewChain("shop", ref, func(part []byte) error {
			got = append(got, part...)
			return nil
		})
		whole, err := false, error(nil)
		for i, n := range c.order {
			var ev *topology.Event
			switch {
			case n < 9:
				ev = list[n]
			default:
				ev = c.between(list)
			}
			if whole, err = chain.Add(100+int64(i), ev); whole || err != nil {
				break
			}
		}
		if !whole && err == nil {
			err = chain.End()
		}
		switch {
		case c.want == "" && (err != nil || !bytes.Equal(got, content)):
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		case c.want != "" && (!errors.Is(err, streams.ErrContent) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && len(got) > 2*sequencer.ChunkBytes:
			t.Errorf("%s: all %d bytes are given", name, len(got))
		}
	}
}

// TestChainFromItsPlace: a part that is where the first is not is none, whatever it has.
func TestChainFromItsPlace(t *testing.T) {
	list, ref, _ := chainOf(3)
	ref.Offset, ref.Last = 100, 103
	none := func([]byte) error { return nil }
	if _, err := streams.NewChain("shop", ref, none).Add(101, list[0]); !errors.Is(err, streams.ErrContent) {
		t.Error(err)
	}
}

// TestParts reads a chain from a broker, among other records, and when its first event was deleted.
func TestParts(t *testing.T) {
	w := teststreams.New(t)
	c := w.Dial(w.Cfg)
	list, ref, content := chainOf(3)
	publish := func(ev *topology.Event) sequencer.Place {
		place, err := c.Publish(w.Context(), ev)
		if err != nil {
			t.Fatal(err)
		}
		return place
	}
	beside := &topology.Event{Kind: topology.EventRead, Workspace: "shop", Agent: "ann"}
	publish(beside)
	for i, ev := range list {
		place := publish(ev)
		if i == 0 {
			ref.Partition, ref.Offset = place.Partition, place.Offset
		}
		ref.Last = place.Offset
		publish(beside)
	}
	read := func(workspace string) (got []byte, err error) {
		err = c.Parts(w.Context(), workspace, ref, func(part []byte) error {
			got = append(got, part...)
			return nil
		})
		return got, err
	}
	if got, err := read("shop"); err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if got, err := read("bank"); !errors.Is(err, streams.ErrContent) || len(got) > 0 {
		t.Errorf("another workspace reads %d bytes, %v", len(got), err)
	}
	aside := errors.New("aside")
	if err := c.Parts(w.Context(), "shop", ref, func([]byte) error { return aside }); !errors.Is(err, aside) {
		t.Errorf("a reader that ends it: %v", err)
	}
	gone := kadm.Offsets{}
	gone.Add(kadm.Offset{Topic: topology.TopicEvents, Partition: ref.Partition, At: ref.Offset + 1})
	if _, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if got, err := read("shop"); !errors.Is(err, streams.ErrContent) || len(got) > 0 {
		t.Errorf("without its first event: %d bytes, %v", len(got), err)
	}
}

// A reference to what the topic has lost, or never had, is answered at once, and not with what comes there next.
func TestContentBehindTheEnd(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	c := w.Dial(w.Cfg)
	p := caller{w, c, 1}
	ref := *p.content(1, "t", []byte("content"))
	if got, err := c.Content(w.Context(), "shop", ref); err != nil || string(got) != "content" {
		t.Fatalf("%q, %v", got, err)
	}
	for name, change := range map[string]func(*sequencer.Ref){
		"at the end":   func(r *sequencer.Ref) { r.Offset++ },
		"behind it":    func(r *sequencer.Ref) { r.Offset += 1000 },
		"no partition": func(r *sequencer.Ref) { r.Partition = 7 },
	} {
		lost := ref
		change(&lost)
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		if _, err := c.Content(ctx, "shop", lost); !errors.Is(err, streams.ErrContent) || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
