package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// Of the sidecar that makes a past.
const (
	pastAgent   = "past"
	pastAtOnce  = 128                    // appends under way
	pastAhead   = 256                    // transactions that are appended and not decided, at most
	pastRenew   = 100 * time.Millisecond // between two promises that nothing older is open
	pastShards  = 64
	pastPatient = time.Minute // without any decision
)

// past makes transactions as the sidecar of another machine leaves them in the log: each is one sealed record, of one
// read and one write. The requests of agents, and a journal, do not stay and are left out: a million of them takes
// minutes.
type past struct {
	log       *streams.Client
	workspace string
	end       func()

	mu        sync.Mutex
	head      sequencer.Seq // that was followed to
	committed int           // in the workspace, by anybody
	decided   int           // of ours
	joined    sequencer.Seq // our incarnation; zero: not yet, or its lease has ended
	failed    error
	stirred   chan struct{} // closed with the next decision

	undecided   chan struct{} // has one for each of our transactions that was appended and is not decided
	joins, made int           // that were appended
}

// openPast follows the workspace from its first decision on.
func openPast(ctx context.Context, servers streams.Config, workspace string) (*past, error) {
	log, err := streams.Dial(ctx, servers)
	if err != nil {
		return nil, fmt.Errorf("connect to make a past: %w", err)
	}
	p := &past{log: log, workspace: workspace, stirred: make(chan struct{}),
		undecided: make(chan struct{}, pastAhead)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it ends with close
	var following sync.WaitGroup
	following.Go(func() {
		err := log.Follow(ctx, workspace, 0, func(o *sequencer.Outcome, _ streams.Way) error {
			p.see(o)
			return nil
		})
		if ctx.Err() == nil {
			p.fail(fmt.Errorf("follow the decisions: %w", err))
		}
	})
	p.end = func() {
		cancel()
		following.Wait()
		log.Close()
	}
	return p, nil
}

// fail ends all waiting.
func (p *past) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = err
	p.stir()
}

// stir lets those that wait look again; mu is held.
func (p *past) stir() {
	close(p.stirred)
	p.stirred = make(chan struct{})
}

// see takes a decision.
func (p *past) see(o *sequencer.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.head = o.Seq
	if o.Kind == sequencer.OutcomeCommitted {
		p.committed++
	}
	if o.Agent == pastAgent {
		switch o.Kind {
		case sequencer.OutcomeJoined:
			p.joined = o.Seq
		case sequencer.OutcomeLeaseEnded:
			p.joined = 0
		case sequencer.OutcomeCommitted:
			p.decided++
			<-p.undecided
		case sequencer.OutcomeRefused, sequencer.OutcomeAborted:
			if o.Code == sequencer.CodeTooOld { // the head was faster: another one is made
				p.decided++
				<-p.undecided
				break
			}
			fallthrough
		default:
			p.failed = fmt.Errorf("transaction %s of the past is %s: %s %s", o.Tx, o.Kind, o.Code, o.Detail)
		}
	}
	p.stir()
}

// until waits for decisions until it is so.
func (p *past) until(ctx context.Context, what string, so func() bool) error {
	for {
		p.mu.Lock()
		done, err, stirred := so(), p.failed, p.stirred
		p.mu.Unlock()
		if done || err != nil {
			return err
		}
		late := time.NewTimer(pastPatient)
		select {
		case <-stirred:
			late.Stop()
		case <-late.C:
			return fmt.Errorf("wait for %s: no decision came in %s", what, pastPatient)
		case <-ctx.Done():
			late.Stop()
			return context.Cause(ctx)
		}
	}
}

// reach makes transactions until the workspace has so many, and returns once the lease under which it made them has
// ended: what follows is of a workspace that only remembers them.
func (p *past) reach(ctx context.Context, transactions int) error {
	if p.missing(transactions) <= 0 {
		return nil
	}
	p.joins++
	err := p.append(ctx, &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: pastAgent,
		Join: &sequencer.Join{ID: fmt.Sprint(pastAgent, p.joins), Logic: sequencer.Logic}})
	if err == nil {
		err = p.until(ctx, "a session", func() bool { return p.joined > 0 })
	}
	for err == nil && p.missing(transactions) > 0 {
		err = p.make(ctx, p.missing(transactions))
	}
	if err == nil {
		err = p.until(ctx, "the end of the lease", func() bool { return p.joined == 0 })
	}
	if err != nil {
		return fmt.Errorf("make a past: %w", err)
	}
	return nil
}

// missing is how many transactions there are to be made.
func (p *past) missing(transactions int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return transactions - p.committed
}

// make appends so many transactions, and waits until they are decided.
func (p *past) make(ctx context.Context, missing int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := p.made
	p.made += missing
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(pastAtOnce, missing) {
		workers.Go(func() {
			for n := int(next.Add(1)); n <= missing; n = int(next.Add(1)) {
				select {
				case p.undecided <- struct{}{}:
				case <-ctx.Done():
					return
				}
				if err := p.append(ctx, p.transaction(first+n)); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	renewing, stop := context.WithCancel(ctx)
	workers.Go(func() {
		// What is older than the head is of no use to anyone: so the state stays as large as it is.
		for pause.Sleep(renewing, pastRenew) == nil {
			at, incarnation := p.at()
			err := p.append(renewing, &sequencer.Intent{Kind: sequencer.IntentWatermark, N: 1, Agent: pastAgent,
				Incarnation: incarnation, Watermark: &sequencer.Watermark{Seq: at}})
			if err != nil && renewing.Err() == nil {
				cancel(err)
			}
		}
	})
	err := p.until(ctx, "the last decision", func() bool { return p.decided >= first+missing })
	if err != nil {
		cancel(err)
	}
	stop()
	workers.Wait()
	return errors.Join(err, context.Cause(ctx))
}

// at is the newest decision that was followed, and our incarnation.
func (p *past) at() (head, incarnation sequencer.Seq) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.head, p.joined
}

// transaction reads what is not there, so that it is never refused, and writes one of a few shards.
func (p *past) transaction(n int) *sequencer.Intent {
	at, incarnation := p.at()
	return &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: sequencer.TxID(fmt.Sprint(pastAgent, "-", n)), N: 1,
		Agent: pastAgent, Incarnation: incarnation, Base: at, Begin: &sequencer.Begin{},
		Seal: &sequencer.Seal{
			Reads: []sequencer.Read{{Scope: "shard:/past/none", View: at}},
			Shards: []sequencer.ShardWrite{{Scope: sequencer.Scope(fmt.Sprint("shard:/past/", n%pastShards)),
				Type: "text/plain", Content: []byte(content)}}}}
}

func (p *past) append(ctx context.Context, in *sequencer.Intent) error {
	_, err := p.log.Append(ctx, p.workspace, in)
	return err
}
