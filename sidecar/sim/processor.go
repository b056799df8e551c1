package sim

import (
	"slices"

	"github.com/hence-dev/hence/sequencer"
)

// processor runs a replica of the fold: all of them at once on the same partition, each at its own pace, as a zombie
// does, or a second group.
type processor struct {
	r    *run
	id   int
	m    *sequencer.Replica
	next int64 // offset that it reads next

	written     sequencer.ReplicaState // the last written state: what a crash leaves
	writtenHash sequencer.Hash
	records     int // since then
	writes      int
	acked       sequencer.Seq // the decision topic has all up to here from this processor
	wasAcked    sequencer.Seq // when the state was written

	down, paused int // until that step
	sends        []*sequencer.Outcome
	acks         []ack
	tickedAt     int // when it folded the last counted tick
	proposed     uint64
	proposedAt   int
}

type ack struct {
	seq sequencer.Seq
	due int
}

func newProcessor(r *run, id int) *processor {
	p := &processor{r: r, id: id, m: sequencer.NewReplica(workspace)}
	p.write()
	return p
}

func (p *processor) step() {
	r := p.r
	if p.down > r.now || p.paused > r.now {
		return
	}
	if p.m == nil {
		p.restart()
	}
	if r.chance(r.swarm.crash) {
		p.crash()
		return
	}
	if r.chance(r.swarm.pause) {
		r.fault()
		p.paused = r.now + r.n(60)
		return
	}
	for range 1 + r.n(4) {
		if p.next < int64(len(r.truth.log)) {
			p.read()
		}
	}
	p.produce()
	p.tick()
}

// read applies the next record and publishes what it led to.
func (p *processor) read() {
	r := p.r
	before := p.m.Fold().Time()
	done, err := p.m.Apply(p.next, r.truth.log[p.next])
	if err != nil {
		r.fail("processor %d stops at offset %d: %v", p.id, p.next, err)
		return
	}
	if done.Replayed {
		r.probe(ProbeReplayed)
	}
	if p.m.Fold().Time() != before {
		p.tickedAt = r.now
	}
	p.next++
	p.publish(done.Outcomes)
	if at := p.m.Offset(); !done.Replayed && at%hashEvery == 0 && p.m.Fold().StateHash() != r.truth.hashes[at/hashEvery] {
		r.fail("processor %d has another state at offset %d than the log gives", p.id, at)
	}
	if p.records++; p.records >= r.swarm.stateEvery {
		p.write()
	}
}

// publish hands outcomes to the delivery and to the decision topic.
func (p *processor) publish(out []sequencer.Outcome) {
	for i := range out {
		o := &out[i]
		if !p.r.truth.agrees(o) {
			p.r.fail("processor %d publishes seq %d with another chain than the log gives", p.id, o.Seq)
			return
		}
		if int(o.Seq) <= len(p.r.topic) && p.r.topic[o.Seq-1] != nil {
			p.r.probe(ProbeZombie)
		}
		p.sends = append(p.sends, o)
		for _, c := range p.r.cars {
			if c.alive() {
				c.inbox.push(p.r, o)
			}
		}
	}
}

// produce makes outcomes durable, in order, and takes the acknowledgements that have come.
func (p *processor) produce() {
	r := p.r
	for range min(len(p.sends), 1+r.n(6)) {
		o := p.sends[0]
		p.sends = p.sends[1:]
		for int(o.Seq) > len(r.topic) {
			r.topic = append(r.topic, nil)
		}
		if r.topic[o.Seq-1] == nil {
			r.topic[o.Seq-1] = o
		}
		p.acks = append(p.acks, ack{o.Seq, r.now + r.n(r.swarm.ackLag+1)})
	}
	for len(p.acks) > 0 && p.acks[0].due <= r.now {
		p.m.Acknowledged(p.acks[0].seq)
		p.acked = max(p.acked, p.acks[0].seq)
		p.acks = p.acks[1:]
	}
}

// tick appends the next tick of the workspace when its time has come on this processor's clock.
func (p *processor) tick() {
	r := p.r
	mark, pending := p.m.NextTick()
	if !pending || r.now < p.tickedAt+tickSteps*int(mark.Weight) || r.now < p.proposedAt+10 && p.proposed == mark.N {
		return
	}
	p.proposed, p.proposedAt = mark.N, r.now
	r.wire.send(ticker(p.id), parcel{in: &sequencer.Intent{Kind: sequencer.IntentTick, Tick: &mark}})
}

// write writes the state; what is in it need not be read from the log again.
func (p *processor) write() {
	p.written = p.m.State()
	p.records, p.wasAcked = 0, p.acked
	if seq := p.m.Fold().Seq(); seq > p.acked && (len(p.written.Outbox) == 0 || p.written.Outbox[0].Seq > p.acked+1) {
		p.r.fail("processor %d writes a state at seq %d whose outbox lacks what follows seq %d", p.id, seq, p.acked)
	}
	if p.writes++; p.writes%4 == 0 { // a hash costs more than the rest of it
		p.writtenHash = p.written.State.Hash()
	}
}

func (p *processor) crash() {
	p.r.fault()
	p.r.note("processor %d crashes at offset %d, written %d", p.id, p.m.Offset(), p.written.Offset)
	p.m, p.sends, p.acks = nil, nil, nil
	p.r.wire.cut(p.r, ticker(p.id))
	p.down = p.r.now + 1 + p.r.n(40)
}

// restart restores the last written state, publishes its outbox, and reads again from there or a little before.
func (p *processor) restart() {
	r := p.r
	if p.writes%4 == 0 && p.written.State.Hash() != p.writtenHash {
		r.fail("processor %d: the written state has changed since it was taken: it shares memory with the fold", p.id)
		return
	}
	m, err := sequencer.RestoreReplica(p.written)
	if err != nil {
		r.fail("processor %d cannot restore its state: %v", p.id, err)
		return
	}
	p.m, p.next, p.acked = m, p.written.Offset+1, p.wasAcked
	if p.written.Offset < int64(len(r.truth.log))-1 {
		r.probe(ProbeReplay)
	}
	if len(m.Outbox()) > 0 {
		r.probe(ProbeOutbox)
	}
	if p.next > 0 {
		p.next -= int64(r.n(int(min(p.next, 6))))
	}
	p.tickedAt, p.records = r.now, 0
	p.publish(slices.Clone(m.Outbox()))
}

func (p *processor) heal() { p.down, p.paused = 0, 0 }
