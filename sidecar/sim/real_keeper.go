package sim

import (
	"context"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// keeper is a processor of the partition: the real replica, with a state that is written now and then. Several run at
// once: one that owns the partition, one that does not know yet that it no longer owns it, one of a second group. What
// none of them has published no view sees, and none of their ticks no time passes.
type keeper struct {
	*dice
	id   int
	m    *sequencer.Replica
	next int64 // offset that it reads next

	written  []byte        // the state as it was written last: what a crash leaves
	wasAcked sequencer.Seq // when that was written
	records  int           // since then
	acked    sequencer.Seq // the decision topic has all up to here from this keeper
	unsent   []*sequencer.Outcome

	countAt  time.Time // when it folded the last counted tick
	appended sequencer.TickMark
	askedAt  time.Time
}

func (b *bubble) newKeeper(id int) *keeper {
	k := &keeper{dice: b.newDice(), id: id, m: sequencer.NewReplica(workspace), countAt: time.Now()}
	k.write()
	return k
}

// work reads, publishes and lets time pass until ctx ends.
func (k *keeper) work(ctx context.Context) {
	for ctx.Err() == nil {
		if k.chance(hitKeeperPaused, func(f *faults) float64 { return f.keeperPause }) {
			k.b.note("processor %d pauses", k.id)
			k.b.sleep(ctx, k.some(8*time.Second))
		}
		if !k.turn(ctx) {
			k.restart(ctx)
		}
	}
}

// turn takes the steps of one record, or waits for it; it reports false when the process dies between two of them.
func (k *keeper) turn(ctx context.Context) bool {
	b := k.b
	in, there, grown := b.at(k.next)
	if !there {
		t := time.NewTimer(k.tick() + k.some(realTick/8))
		defer t.Stop()
		select {
		case <-grown:
		case <-t.C:
		case <-ctx.Done():
		}
		return true
	}
	if !b.sleep(ctx, k.some(b.keeperLag())) {
		return true
	}
	before := k.m.Fold().Time()
	done, err := k.m.Apply(k.next, in)
	if err != nil {
		b.fail("processor %d stops at offset %d: %v", k.id, k.next, err)
		return true
	}
	if k.m.Fold().Time() != before {
		k.countAt = time.Now()
	}
	k.next++
	b.mu.Lock()
	if done.Replayed {
		b.r.probe(ProbeReplayed)
	}
	at := k.m.Offset()
	if !done.Replayed && at%hashEvery == 0 && k.m.Fold().StateHash() != b.r.truth.hashes[at/hashEvery] {
		b.r.fail("processor %d has another state at offset %d than the log gives", k.id, at)
	}
	b.mu.Unlock()
	if k.dies() {
		return false
	}
	for i := range done.Outcomes {
		k.publish(&done.Outcomes[i])
	}
	if k.dies() {
		return false
	}
	k.produce()
	if k.dies() {
		return false
	}
	k.tick()
	if k.records++; k.records >= b.fault.stateEvery {
		k.write()
	}
	return !k.dies()
}

func (k *keeper) dies() bool {
	return k.chance(hitKeeperCrash, func(f *faults) float64 { return f.keeperCrash })
}

// at is a record of the log, or what is closed once there is one.
func (b *bubble) at(offset int64) (in *sequencer.Intent, there bool, grown <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if offset < int64(len(b.r.truth.log)) {
		return b.r.truth.log[offset], true, nil
	}
	return nil, false, b.grown
}

func (b *bubble) keeperLag() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault.keeperLag
}

// publish hands an outcome to the fast delivery, which may lose it, and to the queue of the decision topic.
func (k *keeper) publish(o *sequencer.Outcome) {
	lost := k.chance(hitNATSLost, func(f *faults) float64 { return f.natsLose })
	b := k.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.r.truth.agrees(o) {
		b.r.fail("processor %d publishes seq %d with another chain than the log gives", k.id, o.Seq)
		return
	}
	if b.avail[o.Seq] {
		b.r.probe(ProbeZombie)
	}
	if !lost {
		b.show(o.Seq)
	}
	k.unsent = append(k.unsent, o)
}

// produce makes what was published durable: from then on views can catch up with it.
func (k *keeper) produce() {
	b := k.b
	last := k.acked
	for _, o := range k.unsent {
		last = max(last, o.Seq)
		seq, after := o.Seq, k.some(400*time.Millisecond)
		time.AfterFunc(after, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if !b.avail[seq] {
				b.r.probe(ProbeCatchUp)
			}
			b.show(seq)
		})
	}
	k.unsent = nil
	if k.n(3) > 0 { // else the acknowledgement comes with the next one
		k.m.Acknowledged(last)
		k.acked = last
	}
}

// show lets views have an outcome once all before it are there. b.mu is held.
func (b *bubble) show(seq sequencer.Seq) {
	b.avail[seq] = true
	before := b.shown
	for b.avail[b.shown+1] {
		b.shown++
	}
	if b.shown != before {
		close(b.moved)
		b.moved = make(chan struct{})
	}
}

// published waits until views may have an outcome; it reports false when ctx ended first.
func (b *bubble) published(ctx context.Context, seq sequencer.Seq) bool {
	for {
		b.mu.Lock()
		there, moved := b.shown >= seq, b.moved
		b.mu.Unlock()
		if there {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// tick appends the next tick when its time has come on this processor's clock; it returns when to look again.
func (k *keeper) tick() (wait time.Duration) {
	mark, pending := k.m.NextTick()
	now := time.Now()
	if !pending {
		return time.Second
	}
	if wait = time.Duration(mark.Weight)*realTick - now.Sub(k.countAt); wait > 0 {
		return wait
	}
	if wait = time.Second - now.Sub(k.askedAt); k.appended == mark && wait > 0 {
		return wait
	}
	k.appended, k.askedAt = mark, now
	in := &sequencer.Intent{Kind: sequencer.IntentTick, Tick: &mark}
	switch {
	case k.chance(hitTickLost, func(f *faults) float64 { return f.tickLost }):
	case k.chance(hitTickLate, func(f *faults) float64 { return f.tickLost }):
		after := k.some(5 * time.Second)
		k.b.strays.Go(func() {
			time.Sleep(after)
			_, _ = k.b.log.Add(in)
		})
	default:
		_, _ = k.b.log.Add(in)
	}
	return realTick
}

// write writes the state; what is in it need not be read from the log again.
func (k *keeper) write() {
	st := k.m.State()
	if seq := st.State.Seq; seq > k.acked && (len(st.Outbox) == 0 || st.Outbox[0].Seq > k.acked+1) {
		k.b.fail("processor %d writes a state at seq %d whose outbox lacks what follows seq %d", k.id, seq, k.acked)
	}
	body, err := topology.EncodeReplica(&st)
	if err != nil {
		k.b.fail("the state of processor %d: %v", k.id, err)
		return
	}
	k.written, k.records, k.wasAcked = body, 0, k.acked
}

// restart restores the last written state, publishes its outbox, and reads again from there or a little before.
func (k *keeper) restart(ctx context.Context) {
	b := k.b
	b.note("processor %d crashes at offset %d", k.id, k.m.Offset())
	pause := 300 * time.Millisecond
	if k.n(4) == 0 {
		pause = 9 * time.Second // time stands still where there is no other
	}
	b.sleep(ctx, k.some(pause))
	st, err := topology.DecodeReplica(k.written)
	if err == nil {
		k.m, err = sequencer.RestoreReplica(*st)
	}
	if err != nil {
		b.fail("processor %d cannot restore its state: %v", k.id, err)
		return
	}
	outbox := k.m.Outbox()
	b.mu.Lock()
	if st.Offset < int64(len(b.r.truth.log))-1 {
		b.r.probe(ProbeReplay)
	}
	if len(outbox) > 0 {
		b.r.probe(ProbeOutbox)
	}
	b.mu.Unlock()
	k.next, k.acked, k.unsent, k.records = st.Offset+1, k.wasAcked, nil, 0
	if k.next > 0 {
		k.next -= int64(k.n(int(min(k.next, 6))))
	}
	k.countAt, k.appended = time.Now(), sequencer.TickMark{}
	for i := range outbox {
		k.publish(&outbox[i])
	}
	k.produce()
}

// behind names a keeper that has not read the whole log; empty: none. b.mu is held.
func (b *bubble) behind() string {
	if seq := sequencer.Seq(len(b.r.truth.out)); b.shown < seq {
		return "not every decision is published"
	}
	return ""
}
