package streams

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/topology"
)

// minutely is a follower beside a hence.decisions that has one decision of each minute, a hundred of them.
func minutely(t *testing.T) (f *tailing, at func(sequencer.Seq) time.Time) {
	t.Helper()
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	f = newTailing(t, fromOldest, 1)
	f.stopTail()
	cfg := Config{Brokers: servers.Brokers, Partitions: 1, Clock: f.clock}
	if err := EnsureTopics(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if f.c, err = Dial(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.c.Close)
	at = func(seq sequencer.Seq) time.Time { return time.Unix(0, 0).Add(time.Duration(seq) * time.Minute) }
	for seq := sequencer.Seq(1); seq <= 100; seq++ {
		f.publish(decided(t, "shop", seq, at(seq)))
	}
	return f, at
}

// decided is the record of a decision that was published at a time.
func decided(t *testing.T, workspace string, seq sequencer.Seq, at time.Time) *kgo.Record {
	t.Helper()
	o := &sequencer.Outcome{Workspace: workspace, Seq: seq, Kind: sequencer.OutcomeBegun}
	value, err := topology.EncodeCloudEvent(o, at, "")
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{Topic: topology.TopicDecisions, Key: []byte(workspace), Value: value, Timestamp: at}
}

// publish appends records to hence.decisions.
func (f *tailing) publish(records ...*kgo.Record) {
	f.t.Helper()
	if err := f.c.log.ProduceSync(f.t.Context(), records...).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
}

// brings gives the follower a decision as NATS does, published at a time, of an intent of another.
func (f *tailing) brings(seq sequencer.Seq, at, intent time.Time) {
	f.t.Helper()
	o := &sequencer.Outcome{Workspace: "shop", Seq: seq, Kind: sequencer.OutcomeBegun}
	data, err := topology.EncodeOutcome(o)
	if err != nil {
		f.t.Fatal(err)
	}
	m := nats.NewMsg(topology.DecisionSubject("shop"))
	m.Data = data
	m.Header.Set(topology.HeaderLog, f.log)
	m.Header.Set(topology.HeaderAtMs, strconv.FormatInt(at.UnixMilli(), 10))
	m.Header.Set(topology.HeaderIntentMs, strconv.FormatInt(intent.UnixMilli(), 10))
	if err := f.message(m); err != nil {
		f.t.Fatal(err)
	}
}

// found is the first decision that the tail reads from Kafka.
func (f *tailing) found() tailed {
	f.t.Helper()
	select {
	case found := <-f.tailed():
		if found.err != nil || found.o == nil {
			f.t.Fatalf("the tail found %+v", found)
		}
		return found
	case <-time.After(time.Minute):
		f.t.Fatal("the tail finds nothing")
		return tailed{}
	}
}

// A follower that NATS alone has served for long reads from Kafka what came lately, not all since it last looked.
func TestTailAfterNATS(t *testing.T) {
	f, at := minutely(t)
	f.offset = 0
	for seq := sequencer.Seq(1); seq <= 99; seq++ {
		f.brings(seq, at(seq), at(seq))
	}
	f.startTail()
	if found := f.found(); found.o.Seq != 99 {
		t.Errorf("the tail begins with %d, 99 is applied", found.o.Seq)
	}

	f.stopTail() // an offset behind that time counts
	f.offset = 99
	f.startTail()
	if found := f.found(); found.o.Seq != 100 {
		t.Errorf("the tail begins with %d, offset 99 is wanted", found.o.Seq)
	}
}

// A follower that begins in the middle of a long log, where NATS has nothing, finds its place and does not read all
// that came before; where a late copy leads astray, it begins with the oldest.
func TestTailFindsItsPlace(t *testing.T) {
	f, at := minutely(t)
	var more []*kgo.Record
	for seq := sequencer.Seq(101); seq <= 4*seekWithin; seq++ {
		workspace := "shop"
		if seq%3 == 0 { // of another workspace of the partition lies a record beside each
			workspace = "office"
		}
		more = append(more, decided(t, workspace, seq, at(seq)))
	}
	f.publish(more...)
	for _, next := range []sequencer.Seq{2, 101, seekWithin + 1, 2*seekWithin + 1, 4*seekWithin - 1} {
		f.stopTail()
		f.next, f.offset, f.atMs = next, -1, 0
		f.startTail()
		if got := f.found(); got.o.Seq > next || got.o.Seq+2*seekWithin < next {
			t.Errorf("before %d the tail begins with %d", next, got.o.Seq)
		}
	}
	f.stopTail()
	f.next, f.offset, f.atMs = 3*seekWithin, -1, 0
	f.startTail()
	for _, want := range []startAt{fromSeq, fromSeq, fromOldest} { // 1024 before, 8192 before, which is all of it
		if err := f.tailTooLate(3*seekWithin + 5); err != nil || f.tail.start != want {
			t.Fatalf("a place that is too late: %v, it begins at %d, want %d", err, f.tail.start, want)
		}
	}
	if got := f.found(); got.o.Seq != 1 {
		t.Errorf("the oldest is %d", got.o.Seq)
	}
}

// A replica that was away publishes second copies among later decisions of the other one. A place among those is found
// without reading all that came before.
func TestTailFindsItsPlaceAmongLateCopies(t *testing.T) {
	f, at := minutely(t)
	const away, all = 3_000, 9_000 // the replica is behind by so many, from 4,000 on
	var more []*kgo.Record
	for seq := sequencer.Seq(101); seq <= all; seq++ {
		more = append(more, decided(t, "shop", seq, at(seq)))
		for late := range sequencer.Seq(3) { // in a burst, until it has caught up
			if copied := 4_000 - away + 3*(seq-4_000) + late; seq > 4_000 && copied < seq {
				more = append(more, decided(t, "shop", copied, at(seq)))
			}
		}
	}
	f.publish(more...)
	for next := sequencer.Seq(1_500); next < all; next += 250 {
		f.stopTail()
		f.next, f.offset, f.atMs, f.before = next, -1, 0, 0
		f.startTail()
		for f.next == next {
			if err := f.fromTail(f.found()); err != nil {
				t.Fatal(err)
			}
			if f.tail.start == fromOldest {
				t.Fatalf("before %d all is read", next)
			}
		}
	}
}

// A time that is too late, by clocks that differ, skips nothing that others lie behind: the tail begins again where
// the follower was, and then with the oldest record.
func TestTailAfterALateCopy(t *testing.T) {
	for _, offset := range []int64{-1, 10, 60} {
		f, at := minutely(t)
		f.next = 50
		f.brings(50, at(90), at(90))
		f.offset = offset
		f.startTail()
		began := f.found()
		if began.o.Seq != 90 {
			t.Fatalf("the tail begins with %d, the copy is as late as 90", began.o.Seq)
		}
		for found := began; ; found = f.found() {
			if err := f.fromTail(found); err != nil {
				t.Fatalf("offset %d: %v", offset, err)
			}
			if offset == 10 && f.tail.start == fromOldest {
				t.Fatal("it begins with the oldest although it knows an offset")
			}
			if f.next > 100 {
				break
			}
		}
	}
}

// A replica that is far behind publishes decisions of long ago. Where nothing comes after those of the other one, no
// gap would show that the time of such a copy skips them.
func TestTailAfterTheLastLateCopy(t *testing.T) {
	f, at := minutely(t)
	for _, intent := range []time.Time{at(50), time.UnixMilli(29_999), time.UnixMilli(1)} { // clocks that were never set
		f.next, f.offset, f.atMs = 50, -1, 0
		f.brings(50, at(200), intent)
		f.startTail()
		for f.next <= 100 {
			select {
			case found := <-f.tailed():
				if found.err != nil || found.o == nil {
					t.Fatalf("intent at %v: at %d the tail found %+v, decisions end with 100", intent, f.next, found)
				}
				if err := f.fromTail(found); err != nil {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the tail finds nothing")
			}
		}
		f.stopTail()
	}
}
