package processor

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Time in the log. The owner of a partition appends the next tick of each workspace that has something pending, never
// sooner than weight × tickEvery on its own clock after it folded the last counted one. Two owners therefore do not
// make time run twice as fast, and without an owner it stands still.
const (
	tickEvery   = 250 * time.Millisecond
	tickAgain   = 2 * time.Second // a tick that was appended and not folded is appended once more
	housekeepIn = 25 * time.Millisecond
)

// keepHouse looks after the owned partitions until ctx ends.
func (s *seqProcessor) keepHouse(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		// States fall due and ticks are to be appended also while no record comes to wake a callback.
		case <-s.cfg.Clock.After(housekeepIn):
		}
		for _, p := range s.owned() {
			p.keepHouse()
		}
	}
}

// keepHouse writes states that are due although no record comes, and appends ticks.
func (p *seqPartition) keepHouse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return
	}
	if p.checkReplicas(); p.stopped != nil {
		return
	}
	p.drainAcks()
	now := p.cfg.Clock.Now()
	for _, r := range p.workspaces {
		if p.stateDue(r, now) {
			p.writeState(r)
		}
		if r.pending && p.halted[r.name] == nil { // the state may just have stopped it
			p.tick(r, now)
		}
	}
}

// tick appends the workspace's next tick if it is due; mu is held.
func (p *seqPartition) tick(r *workspaceState, now time.Time) {
	mark, pending := r.replica.NextTick()
	if !pending || now.Sub(r.countAt) < time.Duration(mark.Weight)*tickEvery {
		// Not yet: leases are counted in ticks, so a tick too early ends one that its holder still believes in.
		return
	}
	if r.appended == mark && now.Sub(r.askedAt) < tickAgain {
		return
	}
	r.appended, r.askedAt = mark, now
	value, err := topology.EncodeIntent(&sequencer.Intent{Kind: sequencer.IntentTick, Tick: &mark})
	if err != nil {
		panic("streams: a tick cannot be written: " + err.Error())
	}
	p.metrics.Ticks.Inc()
	rec := &kgo.Record{Topic: topology.TopicIntents, Key: []byte(r.name), Value: value}
	p.out.send(rec, func(*kgo.Record, error) {}) // one that is lost is appended again
}
