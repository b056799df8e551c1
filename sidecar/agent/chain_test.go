package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/topology"
)

// large is a content of so many bytes, no two parts of which are alike.
func large(size int, seed byte) []byte {
	out := make([]byte, size)
	x := uint32(seed) + 1
	for i := range out {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		out[i] = byte(x)
	}
	return out
}

// allowLarge lets contents have as many bytes as they ever may.
func allowLarge(t *testing.T, a *rig) {
	t.Helper()
	most := uint32(sequencer.MaxContent)
	must(a.client.SetRules(background(t), 0, client.RulesChange{MaxContent: &most}))(t)
}

// chunks are the parts of contents in the events topic, in their order.
func chunks(log *memlog.Log) (out []*topology.Event) {
	for _, ev := range log.Events() {
		if ev.Kind == topology.EventContent {
			out = append(out, ev)
		}
	}
	return out
}

// TestChain: a content of any size around the bounds comes back whole at every sidecar. What the seal names is what is
// in the topic: the first and the last event, how many, and the hash of all; each event has its place and hash.
func TestChain(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	_, err := a.client.Put(ctx, "shard:/x", large(sequencer.ChunkBytes+1, 0), client.WriteOptions{})
	if p := problemIn(t, err); p.Code != api.CodeTooLarge || len(chunks(log)) > 0 {
		t.Fatalf("over what the rules allow: %d parts, %+v", len(chunks(log)), p)
	}
	allowLarge(t, a)
	for i, size := range []int{sequencer.ChunkBytes, sequencer.ChunkBytes + 1, 3 * sequencer.ChunkBytes,
		sequencer.MaxContent} {
		before, content := len(chunks(log)), large(size, byte(i))
		d := must(a.client.Put(ctx, "shard:/x", content, client.WriteOptions{MediaType: "image/png"}))(t)
		if d.State != api.StateCommitted {
			t.Fatalf("%d bytes: %+v", size, d)
		}
		if err := b.view.Reach(ctx, log.Seq()); err != nil {
			t.Fatal(err)
		}
		for _, one := range []*rig{a, b} {
			got := must(one.client.Get(ctx, "shard:/x"))(t)
			if !bytes.Equal(got.Content, content) || got.MediaType != "image/png" {
				t.Fatalf("%d bytes came back as %d of %s", size, len(got.Content), got.MediaType)
			}
		}
		ref := log.Outcomes()[len(log.Outcomes())-1].Shards[0].Ref
		list, at, whole := chunks(log)[before:], int64(0), sequencer.Hash(sha256.Sum256(content))
		if size <= sequencer.ChunkBytes {
			if len(list) != 1 || list[0].Chunk != nil || ref.Chunks != 0 {
				t.Fatalf("%d bytes are %d parts: %+v", size, len(list), ref)
			}
			continue
		}
		if int(ref.Chunks) != len(list) || ref.Size != int64(size) || ref.SHA256 != whole {
			t.Fatalf("%d bytes are %d parts, and named as %+v", size, len(list), ref)
		}
		for _, ev := range list {
			sum := sequencer.Hash(sha256.Sum256(ev.Content))
			if ev.Chunk.At != at || ev.Chunk.Of != whole || ev.SHA256 != sum || len(ev.Content) > sequencer.ChunkBytes {
				t.Fatalf("a part at %d: %+v of %d bytes", at, ev.Chunk, len(ev.Content))
			}
			at += ev.Size
		}
	}
	_, err = a.client.Put(ctx, "shard:/x", large(sequencer.MaxContent+1, 9), client.WriteOptions{})
	if p := problemIn(t, err); p.Status != http.StatusRequestEntityTooLarge {
		t.Fatalf("over the bound: %+v", p)
	}
}

// TestChainAmongOthers: former versions, what a retraction puts back and a shard that deltas were written to, all with
// a large content; and the answers that carry no large content say where there is one.
func TestChainAmongOthers(t *testing.T) {
	log := newLog()
	a := start(t, "a", log.Door())
	ctx := background(t)
	allowLarge(t, a)
	content := large(sequencer.ChunkBytes+9, 1)
	first := must(a.client.Put(ctx, "shard:/x", content, client.WriteOptions{}))(t)
	second := must(a.client.Put(ctx, "shard:/x", []byte("small"), client.WriteOptions{}))(t)
	if got := must(a.client.GetVersion(ctx, "shard:/x", first.Seq))(t); !bytes.Equal(got.Content, content) {
		t.Fatalf("a former version has %d bytes", len(got.Content))
	}
	must(a.client.Retract(ctx, second.Tx, "the large one was right", false))(t)
	comes(ctx, t, "what was there before", func() bool {
		got, err := a.client.Get(ctx, "shard:/x")
		return err == nil && bytes.Equal(got.Content, content)
	})
	for op, delta := range map[string]string{"append": "x", "union": "x", "add": "1"} {
		_, err := a.client.Put(ctx, "shard:/x", []byte(delta), client.WriteOptions{Op: op})
		if p := problemIn(t, err); p.Code != api.CodeNotMergeable {
			t.Errorf("%s: %+v", op, p)
		}
	}
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	_, err := tx.Read(ctx, "shard:/x")
	if p := problemIn(t, err); p.Code != api.CodeTooLarge || !strings.Contains(p.Detail, "GET") {
		t.Errorf("a read of a transaction: %+v", p)
	}
	must(0, tx.Write(ctx, "shard:/y", content, client.WriteOptions{}))(t)
	err = tx.Write(ctx, "shard:/y", []byte("x"), client.WriteOptions{Op: "append"})
	if p := problemIn(t, err); p.Code != api.CodeNotMergeable {
		t.Errorf("a delta behind the transaction's own large write: %+v", p)
	}
	_, _, err = a.client.ReadAll(ctx, "shard:/x")
	if p := problemIn(t, err); p.Code != api.CodeTooLarge || !strings.Contains(p.Detail, "GET") {
		t.Errorf("a read of many: %+v", p)
	}
}

// TestChainDamaged: whichever part is lost, changed or exchanged, none of the content is given, and the problem says
// what to do. What was decided stands: another sidecar says the same, and the shard can be written again.
func TestChainDamaged(t *testing.T) {
	log := newLog()
	a, b := start(t, "a", log.Door()), start(t, "b", log.Door())
	ctx := background(t)
	allowLarge(t, a)
	ways := map[string]func(at int64){
		"lost": func(at int64) { log.Lose(at) },
		"damaged": func(at int64) {
			log.Spoil(at, func(ev *topology.Event) {
				ev.Content = bytes.Clone(ev.Content)
				ev.Content[len(ev.Content)/2] ^= 1
			})
		},
		"short": func(at int64) { log.Spoil(at, func(ev *topology.Event) { ev.Content = ev.Content[1:] }) },
		"exchanged": func(at int64) { // whole by itself
			log.Spoil(at, func(ev *topology.Event) {
				ev.Content = large(len(ev.Content), 99)
				ev.SHA256 = sha256.Sum256(ev.Content)
			})
		},
		"of another content": func(at int64) {
			log.Spoil(at, func(ev *topology.Event) { ev.Chunk = &topology.Chunk{At: ev.Chunk.At} })
		},
		"of another workspace": func(at int64) { log.Spoil(at, func(ev *topology.Event) { ev.Workspace = "bank" }) },
	}
	for name, spoil := range ways {
		for part := range 3 {
			content := large(3*sequencer.ChunkBytes-5, 7)
			must(a.client.Put(ctx, "shard:/x", content, client.WriteOptions{}))(t)
			if err := b.view.Reach(ctx, log.Seq()); err != nil {
				t.Fatal(err)
			}
			ref := log.Outcomes()[len(log.Outcomes())-1].Shards[0].Ref
			at, events := ref.Offset, log.Events()
			for left := part; left > 0; { // others' events may lie between
				if at++; events[at].Chunk != nil {
					left--
				}
			}
			spoil(at)
			for _, one := range []*rig{a, b} {
				status, body, length := fetch(t, one, "shard:/x")
				if status != http.StatusServiceUnavailable || !strings.Contains(body, "write this one again") ||
					!strings.Contains(body, `"retryable":false`) {
					t.Errorf("part %d %s: %d, %d bytes of %d: %.300s", part, name, status, len(body), length, body)
				}
			}
		}
	}
	must(a.client.Put(ctx, "shard:/x", []byte("again"), client.WriteOptions{}))(t)
	if got := must(a.client.Get(ctx, "shard:/x"))(t); string(got.Content) != "again" {
		t.Errorf("written again: %q", got.Content)
	}
}

// fetch is one GET without tries.
func fetch(t *testing.T, r *rig, scope string) (status int, body string, length int64) {
	t.Helper()
	req := must(http.NewRequestWithContext(background(t), http.MethodGet,
		r.URL()+"/v1/workspaces/default/shards/"+strings.TrimPrefix(scope, "shard:/"), http.NoBody))(t)
	req.Header.Set("Authorization", "Bearer "+r.Token())
	resp := must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	text := must(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(text), resp.ContentLength
}

// passed is more parts than are cut off.
const passed = 100

// cutOff takes so many parts of contents, and then none.
type cutOff struct {
	*memlog.Door
	left atomic.Int32
	met  chan struct{} // closed at the first that is not taken

	tries []sequencer.TxID // the one that was cut off, and the next
	late  bool             // what was cut off has been taken
}

// between takes what a try has left on its way behind the first part of the next one, and before the others of it.
func (d *cutOff) between(ev *topology.Event) bool {
	if ev.Tx != d.tries[0] && len(d.tries) == 1 {
		d.tries = append(d.tries, ev.Tx)
		return true
	}
	if ev.Tx == d.tries[0] {
		d.late = len(d.tries) > 1
	}
	return d.late
}

func (d *cutOff) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	if events[0].Chunk != nil {
		switch n := d.left.Add(-1); {
		case n == -1:
			d.tries = []sequencer.TxID{events[0].Tx}
			close(d.met)
			fallthrough
		case n < 0:
			done(sequencer.Place{}, memlog.ErrLost)
			return
		case n >= passed && !d.between(events[0]):
			done(sequencer.Place{}, memlog.ErrLost)
			return
		}
	}
	d.Door.PublishAsync(events, done)
}

// TestHalfAChain: a write that ends between two parts has written nothing, at any sidecar. The same content can be
// written again over what it has left, and parts of the first try that come late are none of the second one's.
func TestHalfAChain(t *testing.T) {
	for taken := range int32(4) {
		halfAChain(t, taken)
	}
}

func halfAChain(t *testing.T, taken int32) {
	log := newLog()
	door := &cutOff{Door: log.Door(), met: make(chan struct{})}
	a, b := start(t, "a", door), start(t, "b", log.Door())
	ctx := background(t)
	allowLarge(t, a)
	door.left.Store(taken)
	content := large(4*sequencer.ChunkBytes, 1)
	before := log.Seq()
	cut, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	req := must(http.NewRequestWithContext(cut, http.MethodPut, a.URL()+"/v1/workspaces/default/shards/x",
		bytes.NewReader(content)))(t) // without a key: with one it would be gone on with for its client to come back
	req.Header.Set("Authorization", "Bearer "+a.Token())
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-door.met
	for _, one := range []*rig{a, b} {
		if got := must(one.client.Look(ctx, "shard:/x"))(t); got.Exists {
			t.Fatalf("half a content is there: %d bytes", len(got.Content))
		}
	}
	for _, o := range log.Outcomes()[before:] {
		if len(o.Shards) > 0 {
			t.Fatalf("half a content is decided: %+v", o)
		}
	}
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("a write that was cut off is answered")
	}
	if err := a.session.eventually(ctx, func() bool { // it learns later that its client is gone
		one := a.session.txs[door.tries[0]]
		return one == nil || one.decided()
	}); err != nil {
		t.Fatal(err)
	}
	door.left.Store(2 * passed)
	d := must(a.client.Put(ctx, "shard:/x", content, client.WriteOptions{}))(t)
	if d.State != api.StateCommitted {
		t.Fatalf("again: %+v", d)
	}
	if err := b.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	list := chunks(log)
	if n := int(taken); len(list) != n+5 || string(list[n].Tx) != d.Tx || string(list[n+1].Tx) == d.Tx ||
		string(list[n+2].Tx) != d.Tx {
		t.Fatalf("cut off behind %d parts: the late one is not behind the first of the next try", n)
	}
	if n := slices.IndexFunc(log.Outcomes()[before:], func(o *sequencer.Outcome) bool {
		return len(o.Shards) > 0 && string(o.Tx) != d.Tx
	}); n >= 0 {
		t.Fatalf("cut off behind %d parts: it is decided", taken)
	}
	for _, one := range []*rig{a, b} {
		if got := must(one.client.Get(ctx, "shard:/x"))(t); !bytes.Equal(got.Content, content) {
			t.Fatalf("again: %d bytes", len(got.Content))
		}
	}
}

// holdsOne keeps the first part that comes until it is told to pass it on.
type holdsOne struct {
	*memlog.Door
	parts atomic.Int32
	held  chan func()
}

func (d *holdsOne) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	if events[0].Chunk != nil && d.parts.Add(1) == 1 {
		d.held <- func() { d.Door.PublishAsync(events, done) }
		return
	}
	d.Door.PublishAsync(events, done)
}

// TestChainOfADecided: of a content whose transaction is decided meanwhile no further part is written.
func TestChainOfADecided(t *testing.T) {
	log := newLog()
	door := &holdsOne{Door: log.Door(), held: make(chan func(), 1)}
	a := start(t, "a", door)
	ctx := background(t)
	allowLarge(t, a)
	tx := must(a.client.Begin(ctx, client.BeginOptions{Mode: "locked", DeadlineMs: 1000}))(t)
	failed := make(chan error, 1)
	go func() { failed <- tx.Write(ctx, "shard:/x", large(sequencer.ChunkBytes+1, 1), client.WriteOptions{}) }()
	var pass func()
	select {
	case pass = <-door.held:
	case err := <-failed:
		t.Fatal(err)
	}
	must(0, log.Tick(9))(t)
	if err := a.session.eventually(ctx, func() bool {
		one := a.session.txs[sequencer.TxID(tx.ID())]
		return one == nil || one.decided()
	}); err != nil {
		t.Error(err)
	}
	pass()
	if p := problemIn(t, <-failed); p.Code != string(sequencer.CodeDeadline) {
		t.Errorf("it ends as %+v", p)
	}
	if n := len(chunks(log)); n != 1 {
		t.Errorf("%d parts are written, the first of which was on its way", n)
	}
}

// failsOnce does not take the second part that comes at its first try.
type failsOnce struct {
	*memlog.Door
	parts atomic.Int32
}

func (d *failsOnce) PublishAsync(events []*topology.Event, done func(sequencer.Place, error)) {
	if events[0].Chunk != nil && d.parts.Add(1) == 2 {
		done(sequencer.Place{}, memlog.ErrLost)
		return
	}
	d.Door.PublishAsync(events, done)
}

// TestChainInOrder: a part that is sent again has none of those behind it in front.
func TestChainInOrder(t *testing.T) {
	log := newLog()
	a := start(t, "a", &failsOnce{Door: log.Door()})
	ctx := background(t)
	allowLarge(t, a)
	content := large(4*sequencer.ChunkBytes, 1)
	must(a.client.Put(ctx, "shard:/x", content, client.WriteOptions{}))(t)
	if got := must(a.client.Get(ctx, "shard:/x"))(t); !bytes.Equal(got.Content, content) {
		t.Fatalf("%d bytes", len(got.Content))
	}
}

// TestLargeOfAnOlderLogic: before logic 4 no decision can name a chain, so what does not fit into one event is refused
// before any of it is written; what fits is written as ever.
func TestLargeOfAnOlderLogic(t *testing.T) {
	log := newLog()
	join := &sequencer.Intent{Kind: sequencer.IntentJoin, N: 1, Agent: "z",
		Join: &sequencer.Join{ID: "z", Logic: chainsFrom - 1}}
	if _, err := log.Add(join); err != nil {
		t.Fatal(err)
	}
	a := start(t, "a", log.Door())
	ctx := background(t)
	allowLarge(t, a)
	content := large(mostInOne+1, 1)
	_, err := a.client.Put(ctx, "shard:/x", content, client.WriteOptions{})
	if p := problemIn(t, err); p.Code != api.CodeTooLarge || !strings.Contains(p.Detail, "--logic 4") {
		t.Errorf("over one event: %+v", p)
	}
	if n := len(chunks(log)); n != 0 {
		t.Errorf("%d parts are written", n)
	}
	must(a.client.Put(ctx, "shard:/x", content[1:], client.WriteOptions{}))(t)
	if got := must(a.client.Get(ctx, "shard:/x"))(t); !bytes.Equal(got.Content, content[1:]) {
		t.Errorf("%d bytes", len(got.Content))
	}
}
