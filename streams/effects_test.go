package streams_test

import (
	"bytes"
	"context"
	"crypto/sha256"
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

// caller publishes events as a sidecar of one incarnation does.
type caller struct {
	w           *teststreams.World
	c           *streams.Client
	incarnation sequencer.Seq
}

func (p caller) publish(index uint64, ev *topology.Event) sequencer.Place {
	p.w.T.Helper()
	ev.Workspace, ev.Agent, ev.Incarnation, ev.Index = "shop", "ann", p.incarnation, index
	place, err := p.c.Publish(p.w.Context(), ev)
	if err != nil {
		p.w.T.Fatal(err)
	}
	return place
}

func (p caller) effect(index uint64, tx sequencer.TxID, n uint32, args string) {
	p.w.T.Helper()
	p.publish(index, &topology.Event{Kind: topology.EventEffect, Tx: tx, Effect: &topology.EffectText{Index: n,
		Class: sequencer.ClassReversible, Tool: "put", Args: []byte(args)}})
}

// content keeps a text in the topic and refers to it.
func (p caller) content(index uint64, tx sequencer.TxID, text []byte) *sequencer.Ref {
	p.w.T.Helper()
	ev := &topology.Event{Kind: topology.EventContent, Tx: tx, Content: text, Size: int64(len(text)),
		SHA256: sha256.Sum256(text)}
	place := p.publish(index, ev)
	return &sequencer.Ref{Partition: place.Partition, Offset: place.Offset, Size: ev.Size, SHA256: ev.SHA256}
}

func shown(events []*topology.Event) string {
	var out bytes.Buffer
	for _, ev := range events {
		fmt.Fprintf(&out, "%d/%d:%d%.20s%.20s ", ev.Incarnation, ev.Index, ev.Effect.Index, ev.Effect.Args,
			ev.Effect.Answer)
	}
	return out.String()
}

func TestEffects(t *testing.T) {
	w := teststreams.New(t)
	c := w.Dial(w.Cfg)
	if events, err := c.Effects(w.Context(), "shop", "t"); err != nil || len(events) != 0 {
		t.Fatalf("of an empty topic: %v, %v", events, err)
	}
	first, heir := caller{w, c, 3}, caller{w, c, 9}
	long := bytes.Repeat([]byte("long "), 40_000)
	first.effect(1, "t", 0, "{a}")
	first.effect(2, "other", 0, "{b}")
	ref := first.content(3, "t", long)
	first.publish(5, &topology.Event{Kind: topology.EventAnswer, Tx: "t", Effect: &topology.EffectText{Step: 3,
		Answer: []byte("[a]")}})
	first.publish(4, &topology.Event{Kind: topology.EventEffect, Tx: "t", // sent again: behind its follower
		Effect: &topology.EffectText{Index: 1, ArgsRef: ref}})
	heir.publish(1, &topology.Event{Kind: topology.EventAnswer, Tx: "t", Effect: &topology.EffectText{Index: 1, Step: 3,
		AnswerRef: ref}})
	first.effect(1, "t", 0, "{a}") // a second copy, and behind the heir's
	first.publish(6, &topology.Event{Kind: topology.EventRead, Tx: "t", Scope: "shard:/x"})
	w.Put(w.Kafka(), topology.TopicEvents, "shop|t", []byte{1, 0xc1})

	events, err := c.Effects(w.Context(), "shop", "t")
	if err != nil {
		t.Fatal(err)
	}
	if want := "3/1:0{a} 3/4:1long long long long  3/5:0[a] 9/1:1long long long long  "; shown(events) != want {
		t.Errorf("%s, want %s", shown(events), want)
	}
	if !bytes.Equal(events[1].Effect.Args, long) || events[1].Effect.ArgsRef != nil || events[3].Effect.AnswerRef != nil {
		t.Error("a reference was not put in place")
	}
	for what, spoil := range map[string]func(*sequencer.Ref){
		"hash": func(r *sequencer.Ref) { r.SHA256[0]++ }, "partition": func(r *sequencer.Ref) { r.Partition++ },
		"size": func(r *sequencer.Ref) { r.Size++ }, "offset": func(r *sequencer.Ref) { r.Offset = 0 },
	} {
		wrong := *ref
		spoil(&wrong)
		tx := sequencer.TxID("wrong " + what)
		first.publish(20, &topology.Event{Kind: topology.EventEffect, Tx: tx, Effect: &topology.EffectText{ArgsRef: &wrong}})
		if _, err := c.Effects(w.Context(), "shop", tx); !errors.Is(err, streams.ErrContent) {
			t.Errorf("another %s: %v", what, err)
		}
	}
	if _, err := c.Effects(w.Context(), "No Workspace", "t"); err == nil {
		t.Error("effects of what is no workspace")
	}
}

// What is acknowledged before the call is in the answer, whatever the table knows, and the table is where the reading
// begins once it knows the transaction.
func TestEffectsBeginWhereTheTableSays(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	p := caller{w, c, a.Incarnation}
	for i := range uint64(20) {
		p.effect(i+1, "before", uint32(i), "{}")
	}
	tx, in := a.Intent("orders/1", "x")
	p.effect(21, tx, 0, "{a}")
	a.Append(in)
	w.Decided(v, tx)
	w.Until("the row", func() bool {
		got, err := c.Closure(w.Context(), "shop", tx, 1)
		return err == nil && got.Rows[0].Seq > 0 && got.Rows[0].Events.First == 20 && len(got.Rows[0].Effects) == 1
	})
	p.effect(22, tx, 1, "{b}")
	events, err := c.Effects(w.Context(), "shop", tx)
	if want := fmt.Sprintf("%d/21:0{a} %d/22:1{b} ", a.Incarnation, a.Incarnation); err != nil || shown(events) != want {
		t.Errorf("%s, %v, want %s", shown(events), err, want)
	}
	cut := kadm.Offsets{}
	cut.AddOffset(topology.TopicEvents, 0, 20, -1)
	if _, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), cut); err != nil {
		t.Fatal(err)
	}
	if events, err = c.Effects(w.Context(), "shop", tx); err != nil || len(events) != 2 {
		t.Errorf("after others' events were deleted: %s, %v", shown(events), err)
	}
	// The first transaction is not decided, so no table speaks for it; half of it is gone.
	if _, err = c.Effects(w.Context(), "shop", "before"); !errors.Is(err, streams.ErrGone) {
		t.Errorf("deleted events: %v", err)
	}
	cut.AddOffset(topology.TopicEvents, 0, 21, -1)
	if _, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), cut); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Effects(w.Context(), "shop", tx); !errors.Is(err, streams.ErrGone) {
		t.Errorf("deleted events of a decided transaction: %v", err)
	}
}

// A call that was deleted is missed by the ones behind it, also if the transaction is said to be younger than the
// topic: a touch that came later, or a table that was rebuilt after the deletion.
func TestEffectsBehindADeletedCall(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	stop := w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	a := w.Join(c, v, "shop", "ann")
	p := caller{w, c, a.Incarnation}
	tx, in := a.Intent("orders/1", "x")
	p.effect(1, tx, 0, "{a}")
	p.effect(2, "open", 0, "{a}")
	p.publish(3, &topology.Event{Kind: topology.EventTouch, Tx: "open", Scope: "db:/x"})
	p.effect(4, "open", 1, "{b}")
	p.effect(5, tx, 1, "{b}")
	a.Append(in)
	w.Decided(v, tx)
	w.Complete(v, "shop")
	stop()
	w.ForgetGroup(topology.GroupClosure, "")
	cut := kadm.Offsets{}
	cut.AddOffset(topology.TopicEvents, 0, 2, -1)
	if _, err := kadm.NewClient(w.Kafka()).DeleteRecords(w.Context(), cut); err != nil {
		t.Fatal(err)
	}
	if err := streams.EnsureTopics(w.Context(), w.Cfg); err != nil {
		t.Fatal(err)
	}
	w.Run(w.Cfg)
	w.Until("the row", func() bool {
		got, err := c.Closure(w.Context(), "shop", tx, 1)
		return err == nil && got.Rows[0].Seq > 0 && got.Rows[0].Events.First == 4
	})
	for _, tx := range []sequencer.TxID{tx, "open"} {
		if events, err := c.Effects(w.Context(), "shop", tx); !errors.Is(err, streams.ErrGone) {
			t.Errorf("%s lacks its first call: %d events, %v", tx, len(events), err)
		}
	}
}

// A decided transaction whose events are gone with their topic has lost them: it is not one that did nothing.
func TestEffectsOfARecreatedTopic(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	a := w.Join(c, w.Follow(c, "shop"), "shop", "ann")
	tx, in := a.Intent("orders/1", "x")
	caller{w, c, a.Incarnation}.effect(1, tx, 0, "{a}")
	a.Append(in)
	w.Until("the row", func() bool {
		got, err := c.Closure(w.Context(), "shop", tx, 1)
		return err == nil && got.Rows[0].Seq > 0 && got.Rows[0].Events.First == 0
	})
	w.Again(topology.TopicEvents)
	w.Until("the loss", func() bool { // once the table answers again
		_, err := c.Effects(w.Context(), "shop", tx)
		return errors.Is(err, streams.ErrGone)
	})
}

// Without processors and NATS the topic is read from its beginning; a broker that answers with errors delays the
// answer and never shortens it; and the caller's end ends it.
func TestEffectsFromTheTopicAlone(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.NATS = "" })
	c := w.Dial(w.Cfg)
	p := caller{w, c, 3}
	for i := range uint32(50) {
		p.effect(uint64(i)+1, "t", i, "{}")
	}
	w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 3})
	events, err := c.Effects(w.Context(), "shop", "t")
	if err != nil || len(events) != 50 {
		t.Errorf("%d events, %v", len(events), err)
	}
	w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if events, err := c.Effects(ctx, "shop", "t"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d events, %v", len(events), err)
	}
}
