package agent

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/streams"
)

// sealDoor lets a test say what becomes of each append of a seal.
type sealDoor struct {
	*memlog.Door
	came   chan struct{} // one for each append of a seal that the log has
	answer chan error    // what it is answered with
	seen   chan struct{} // two for each refusal that the sidecar has seen, unless nil
}

func newSealDoor(log *memlog.Log) sealDoor {
	return sealDoor{Door: log.Door(), came: make(chan struct{}), answer: make(chan error)}
}

func (d sealDoor) Append(ctx context.Context, workspace string, in *sequencer.Intent) (int64, error) {
	at, err := d.Door.Append(ctx, workspace, in)
	if in.Kind != sequencer.IntentSeal || err != nil {
		return at, err
	}
	d.came <- struct{}{}
	if err := <-d.answer; err != nil {
		return 0, err
	}
	return at, nil
}

func (d sealDoor) Follow(ctx context.Context, workspace string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	return d.Door.Follow(ctx, workspace, after, func(o *sequencer.Outcome, way streams.Way) error {
		err := apply(o, way)
		for range 2 {
			if d.seen == nil || o.Kind != sequencer.OutcomeRefused {
				break
			}
			select {
			case d.seen <- struct{}{}:
			case <-ctx.Done():
			}
		}
		return err
	})
}

// again lets one append of a seal through, and says whether its answer is lost.
func (d sealDoor) again(lost error) {
	<-d.came
	d.answer <- lost
}

// refusedSeal is a transaction whose seal the log has refused for want of room, and the sidecar that has seen that,
// but has no answer to its append yet. other makes room.
func refusedSeal(ctx context.Context, t *testing.T) (log *memlog.Log, door sealDoor, a *rig, tx, other *client.Tx,
	sealed chan error) {
	t.Helper()
	log = newLog()
	other = full(ctx, t, log)
	door = newSealDoor(log)
	a = start(t, "a", door)
	tx = open(ctx, t, a, client.BeginOptions{})
	if err := tx.Write(ctx, "shard:/x", []byte("sealed"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	sealed = make(chan error, 1)
	go func() {
		_, err := tx.Seal(ctx)
		sealed <- err
	}()
	<-door.came
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	return log, door, a, tx, other, sealed
}

// A seal that was refused for want of room, and whose answer was lost, may be taken when it is repeated: until that is
// known the transaction is sealed, nothing can be added to what commits, and the answer is what the log has decided.
func TestRefusedSealIsRepeated(t *testing.T) {
	ctx := background(t)
	log, door, a, tx, other, sealed := refusedSeal(ctx, t)
	if d := must(tx.Status(ctx, 0))(t); d.State != api.StateSealed {
		t.Errorf("while a copy may come: %+v", d)
	}
	err := tx.Write(ctx, "shard:/late", []byte("late"), client.WriteOptions{})
	if p := problemCode(err); p != string(sequencer.CodeLateEffect) {
		t.Errorf("it can be written in: %v", err)
	}
	if err := other.Abort(ctx, "makes room"); err != nil {
		t.Fatal(err)
	}
	door.answer <- memlog.ErrLost
	door.again(nil)
	if err := <-sealed; err != nil {
		t.Errorf("the seal: %v", err)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted || len(committed(log)) != 1 {
		t.Errorf("asked again: %+v", d)
	}
	for scope, want := range map[string]bool{"shard:/x": true, "shard:/late": false} {
		if got := must(a.client.Get(ctx, scope))(t); got.Exists != want {
			t.Errorf("%s: %+v", scope, got)
		}
	}
}

// When the last copy is refused, too, the transaction is open: it can be changed, and the next seal carries that.
func TestRefusedSealIsRefusedAgain(t *testing.T) {
	for name, lost := range map[string][]error{"at once": {nil}, "repeated": {memlog.ErrLost, memlog.ErrLost, nil}} {
		t.Run(name, func(t *testing.T) {
			ctx := background(t)
			_, door, a, tx, other, sealed := refusedSeal(ctx, t)
			door.answer <- lost[0]
			for _, err := range lost[1:] {
				door.again(err)
			}
			p := problemIn(t, <-sealed)
			if p.Code != api.CodeLimit || p.Decision == nil || p.Decision.State != api.StateOpen {
				t.Fatalf("the seal: %+v", p)
			}
			if err := tx.Write(ctx, "shard:/late", []byte("late"), client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := other.Abort(ctx, "makes room"); err != nil {
				t.Fatal(err)
			}
			decided := sealing(ctx, t, tx)
			door.again(nil)
			if d := <-decided; d.State != api.StateCommitted {
				t.Fatalf("sealed again: %+v", d)
			}
			if got := must(a.client.Get(ctx, "shard:/late"))(t); string(got.Content) != "late" {
				t.Errorf("what was added: %+v", got)
			}
		})
	}
}

// The refusal of a first copy that is seen after the second one was taken says nothing.
func TestRefusedSealSeenLate(t *testing.T) {
	log := newLog()
	ctx := background(t)
	other := full(ctx, t, log)
	door := newSealDoor(log)
	door.seen = make(chan struct{})
	a := start(t, "a", door)
	tx := open(ctx, t, a, client.BeginOptions{})
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	door.Hold()
	sealed := make(chan error, 1)
	go func() {
		_, err := tx.Seal(ctx)
		sealed <- err
	}()
	<-door.came
	if err := other.Abort(ctx, "makes room"); err != nil {
		t.Fatal(err)
	}
	door.answer <- memlog.ErrLost
	door.again(nil)
	acked := func() bool {
		defer a.session.stand()()
		return !a.session.txs[sequencer.TxID(tx.ID())].ackedAt.IsZero()
	}
	for !acked() && ctx.Err() == nil {
		must(tx.Status(ctx, 0))(t)
	}
	door.Release()
	<-door.seen
	if d := must(tx.Status(ctx, 0))(t); d.State != api.StateSealed {
		t.Errorf("the second copy is in the log: %+v", d)
	}
	<-door.seen
	if err := <-sealed; err != nil {
		t.Errorf("the seal: %v", err)
	}
}

// A refusal that no copy can escape counts at once: the log knows the transaction, and its own agent's other one.
func TestRefusedSealForGood(t *testing.T) {
	log := newLog()
	ctx := background(t)
	door := newSealDoor(log)
	a := start(t, "a", door)
	other := open(ctx, t, a, client.BeginOptions{Mode: "locked"})
	must(other.Read(ctx, "shard:/x"))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	if err := tx.Write(ctx, "shard:/x", []byte("x"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	sealed := make(chan error, 1)
	go func() {
		_, err := tx.Seal(ctx)
		sealed <- err
	}()
	<-door.came
	err := a.session.eventually(ctx, func() bool {
		return a.session.txs[sequencer.TxID(tx.ID())].phase == phaseOpen
	})
	if err != nil {
		t.Fatalf("it is not open: %v", err)
	}
	door.answer <- memlog.ErrLost
	if p := problemIn(t, <-sealed); p.Code != string(sequencer.CodeOwnTransaction) {
		t.Errorf("the seal: %+v", p)
	}
	if err := other.Abort(ctx, "gives way"); err != nil {
		t.Fatal(err)
	}
	decided := sealing(ctx, t, tx)
	door.again(nil)
	if d := <-decided; d.State != api.StateCommitted {
		t.Errorf("sealed again: %+v", d)
	}
}

// What another's intent is refused for does not end a transaction that the log has not heard of yet.
func TestRefusedForAnother(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	other := stranger(t, log, "b")
	must(log.Add(&sequencer.Intent{Kind: sequencer.IntentRetract, Tx: sequencer.TxID(tx.ID()), N: 1, Agent: "b",
		Incarnation: other}))(t)
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if d := must(tx.Status(ctx, 0))(t); d.State != api.StateOpen {
		t.Fatalf("after another's retraction was refused: %+v", d)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("sealed: %+v", d)
	}
}

// A seal for which the sidecar has no task left is refused before anything is frozen.
func TestSealWithoutTask(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	must(a.client.Get(ctx, "shard:/loose"))(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	free := a.session.busy()
	status, p, _ := a.send(t, post("/v1/tx/"+tx.ID()+"/seal", ""))
	if status != http.StatusServiceUnavailable || p.Code != api.CodeBusy || !p.Retryable || !p.SafeSameKey {
		t.Fatalf("without a task: %d %+v", status, p)
	}
	free()
	if d := must(tx.Status(ctx, 0))(t); d.State != api.StateOpen || a.session.loose.Reads() != 1 {
		t.Errorf("after that: %+v, %d loose reads", d, a.session.loose.Reads())
	}
	if err := tx.Write(ctx, "shard:/x", []byte("x"), client.WriteOptions{}); err != nil {
		t.Errorf("it cannot be written in: %v", err)
	}
	if d := must(tx.Seal(ctx))(t); d.State != api.StateCommitted {
		t.Errorf("sealed again: %+v", d)
	}
}

// A transaction that the log knows by a refused touch only: the last copy of its refused seal is a duplicate, which
// the log answers with nothing new. It is open all the same once the view is past that copy, however late it saw them.
func TestRefusedSealOfKnown(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("seen late: %v", late), func(t *testing.T) {
			t.Parallel()
			log := newLog()
			ctx := background(t)
			door := newSealDoor(log)
			a := start(t, "a", door)
			other := open(ctx, t, a, client.BeginOptions{})
			touch(ctx, t, other, writes("order:/x"))
			tx := open(ctx, t, a, client.BeginOptions{})
			_, err := tx.Touch(ctx, writes("order:/x"), client.TouchOptions{})
			if problemCode(err) != string(sequencer.CodeOwnTransaction) {
				t.Fatalf("the touch: %v", err)
			}
			if err := tx.Write(ctx, "shard:/x", []byte("sealed"), client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			rules := sequencer.DefaultRules()
			rules.Version, rules.Logic, rules.MaxBytes = 1, sequencer.Logic, 100
			must(log.Add(&sequencer.Intent{Kind: sequencer.IntentRules, Rules: &rules}))(t)
			if err := a.view.Reach(ctx, log.Seq()); err != nil {
				t.Fatal(err)
			}
			if late {
				door.Hold()
			}
			sealed := make(chan error, 1)
			go func() {
				_, err := tx.Seal(ctx)
				sealed <- err
			}()
			<-door.came
			door.answer <- memlog.ErrLost
			door.again(nil)
			door.Release()
			if p := problemIn(t, <-sealed); p.Code != api.CodeLimit || p.Decision == nil || p.Decision.State != api.StateOpen {
				t.Errorf("the seal: %+v", p)
			}
		})
	}
}

// A sidecar that stops does not wait for a request that freezes a transaction, as long as that may take.
func TestStopWhileFreezing(t *testing.T) {
	log, world := newLog(), newSink()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	ctx := background(t)
	tx := open(ctx, t, a, client.BeginOptions{})
	door.Silence(true)
	must(tx.Effect(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	request, leave := context.WithCancel(context.WithoutCancel(ctx)) // as one with an Idempotency-Key
	one := a.session.txs[sequencer.TxID(tx.ID())]
	sealed := make(chan error, 1)
	go func() {
		_, err := flow(a.session, func() (*api.Decision, error) { return a.session.seal(request, one) })
		sealed <- err
	}()
	freezing := func() bool { return inside(a.session, func() bool { return one.busy }) }
	for !freezing() && ctx.Err() == nil {
		must(tx.Status(ctx, 0))(t)
	}
	go func() { _ = a.stop() }()
	select {
	case <-a.done:
	case <-ctx.Done():
		t.Error("it does not stop before the request ends")
	}
	leave()
	if err := <-sealed; err == nil {
		t.Error("sealed by a sidecar that has stopped")
	}
}

// The answer of a request whose seal may be in the log when the sidecar stops is no refusal: a client that sends a
// request without a key again, because it is told that it may, would do its work twice.
func TestStopBehindASeal(t *testing.T) {
	for name, keep := range map[string]func(*memlog.Door){
		"appended":     (*memlog.Door).Hold,
		"not appended": func(d *memlog.Door) { d.FailAppends(math.MaxInt) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, log := background(t), newLog()
			door := log.Door()
			a := start(t, "a", door)
			keep(door)
			type answer struct {
				d   *api.Decision
				err error
			}
			got := make(chan answer, 1)
			go func() {
				d, _, err := a.session.Put(context.WithoutCancel(ctx), once.Call{}, &api.Put{Scope: "shard:/x"})
				got <- answer{d, err}
			}()
			if err := a.session.eventually(ctx, func() bool { return len(a.session.sending) > 0 }); err != nil {
				t.Fatal(err)
			}
			_ = a.stop()
			if one := <-got; one.err != nil || one.d.State != api.StateSealed {
				t.Errorf("answered %+v, %v", one.d, one.err)
			}
		})
	}
}
