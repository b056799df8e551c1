package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
)

// firstOf is a journal's first records, and the kind of the last of them.
func firstOf(t *testing.T, file []byte, n int) (cut []byte, last byte, more bool) {
	t.Helper()
	cut = []byte(journal.Magic)
	_, _, err := journal.Scan(bytes.NewReader(file), func(record []byte) error {
		if n--; n >= 0 {
			cut, last = journal.Frame(cut, record[0], record[1:]), record[0]
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return cut, last, n < 0
}

// kindsOf are the kinds of a journal's records.
func kindsOf(t *testing.T, file []byte) (kinds string) {
	t.Helper()
	_, _, err := journal.Scan(bytes.NewReader(file), func(record []byte) error {
		kinds += string(record[:1])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// keyedRequests are requests whose repetition must not do anything a second time.
func keyedRequests() map[string]rawCall {
	one := func(tool string) rawCall {
		return with(post("/v1/effects", `{"tool":"`+tool+`","args":{"at":"x"}}`), "Idempotency-Key", "k")
	}
	return map[string]rawCall{
		"mail": one("mail"), "unmail": one("unmail"), "set": one("set"), "look": one("look"),
		"put": put(inDefault+"/shards/x", "Idempotency-Key", "k"),
		"commit": with(post(inDefault+"/commit", `{"reads":[{"scope":"shard:/x","version":0}],`+
			`"writes":[{"scope":"shard:/x",`+
			`"value":1}],"effects":[{"tool":"mail","args":{"at":"x"}}]}`), "Idempotency-Key", "k"),
	}
}

// One request with one key, its process killed after any of its journal's records, and the same request sent to the
// next process: there is one effect and one commit, whether the log has the first transaction or not.
func TestKeyAtEachRecord(t *testing.T) {
	for name, request := range keyedRequests() {
		for _, reached := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/the log has it %v", name, reached), func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n++ {
					if !keyAfter(t, name, request, reached, n) {
						break
					}
				}
			})
		}
	}
}

// keyAfter kills a process after the first n records of its journal; it reports whether there are more.
func keyAfter(t *testing.T, name string, request rawCall, reached bool, n int) bool {
	t.Helper()
	log, world := newLog(), newSink()
	ctx := background(t)
	door := log.Door()
	a := start(t, "a", door, quick(world), func(c *setup) { c.Limits.WaitMost = 150 * time.Millisecond })
	if err := a.view.Reach(ctx, log.Seq()); err != nil {
		t.Fatal(err)
	}
	if !reached {
		if name == "set" {
			return false // it asks for its touch before it is called
		}
		door.FailAppends(1 << 30)
	}
	status, _, _ := a.send(t, request)
	if reached && status/100 != 2 || !reached && status != http.StatusAccepted && status/100 != 5 {
		t.Fatalf("the first try: %d", status)
	}
	if reached {
		a.final(ctx, t, "a.1.1")
	}
	file, last, more := firstOf(t, a.die(t, door), n)
	kinds := kindsOf(t, file)
	sealed := strings.Contains(kinds, string(rune(journal.RecordSealed)))
	// In truth a seal is in the journal before it is in the log, and a session before its first request: the first
	// record of one is that of a journal that has none.
	if reached && !sealed || strings.Count(kinds, string(rune(journal.RecordJoined))) < 2 {
		return more
	}
	b := reborn(t, log, "a", file, quick(world)).aloneNow()
	saved := 2 // with the transaction, with the answer
	if name == "look" {
		saved++ // with what it has seen
	}
	replayed := ""
	if strings.Count(kinds, string(rune(journal.RecordKey))) == saved && status != http.StatusAccepted {
		replayed = "true"
	}
	status, p, header := b.send(t, request)
	if status/100 != 2 || header.Get("Idempotency-Replayed") != replayed {
		t.Fatalf("killed after %q (%s): %d %+v, replayed: %q", last, kinds, status, p,
			header.Get("Idempotency-Replayed"))
	}
	if name == "put" {
		if got := committed(log); status != http.StatusCreated || len(got) != 1 {
			t.Errorf("killed after %q (%s): %d, %d commits for one key", last, kinds, status, len(got))
		}
		return more
	}
	if len(committed(log)) != 1 {
		t.Errorf("killed after %q (%s): %d commits for one key", last, kinds, len(committed(log)))
	}
	want := map[string][]string{"mail": {"mail x"}, "commit": {"mail x"}, "unmail": {"unmail x"}, "set": {"set " +
		"x"}}[name]
	_ = log.Until(ctx, func() bool { return len(world.world()) >= len(want) })
	if !reached { // else it is settled
		b.final(ctx, t, string(committed(log)[0].Tx))
	}
	got := slices.DeleteFunc(world.world(), func(did string) bool { return did == "look x" })
	if !slices.Equal(got, want) {
		t.Errorf("killed after %q (%s): one key, and the world saw %q", last, kinds, got)
	}
	return more
}

// An eager call that had begun is undone with its transaction. Its request is not made again by itself: the client
// that sent it is told.
func TestKeyOfAnEagerCallThatBegan(t *testing.T) {
	log, world := newLog(), newSink()
	ctx := background(t)
	door := log.Door()
	a := start(t, "a", door, quick(world))
	world.block["set"] = make(chan struct{})
	request := with(post("/v1/effects", `{"tool":"set","args":{"at":"x"}}`), "Idempotency-Key", "k")
	gone, leave := context.WithCancel(ctx)
	body := strings.NewReader(request.body)
	first := must(http.NewRequestWithContext(gone, request.method, a.URL()+request.path, body))(t)
	first.Header.Set("Authorization", "Bearer "+a.Token())
	first.Header.Set("Idempotency-Key", "k")
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = (&http.Transport{DisableKeepAlives: true}).RoundTrip(first) // it is not answered
	}()
	select {
	case <-world.entered:
	case <-ctx.Done():
		t.Fatal("the call does not begin")
	}
	leave()
	<-over
	file := a.die(t, door)
	world.set(func() { clear(world.block) })
	b := reborn(t, log, "a", file, quick(world)).aloneNow()
	for range 2 {
		if status, p, _ := b.send(t, request); status != http.StatusGone || p.Code != api.CodeSessionLost {
			t.Fatalf("%d %+v", status, p)
		}
	}
	b.final(ctx, t, "a.1.1")
	if got := world.world(); slices.Contains(got, "set x") && !slices.Contains(got, "back x") {
		t.Errorf("the world saw %q", got)
	}
}

// A key's answer comes back after a restart; those of an open transaction's reads and writes, and of tools that the
// process knew, do not.
func TestKeysThatOutlive(t *testing.T) {
	log := newLog()
	door := log.Door()
	a := start(t, "a", door)
	begin := with(post(inDefault+"/tx", ""), "Idempotency-Key", "begin")
	_, _, header := a.send(t, begin)
	at := header.Get("Location")
	inside := map[string]rawCall{
		"read":  with(post(at+"/reads", `{"scope":"shard:/x"}`), "Idempotency-Key", "read"),
		"write": with(post(at+"/writes", `{"scope":"shard:/x","content":"1"}`), "Idempotency-Key", "write"),
		"touch": with(post(at+"/touches", `{"wants":[{"scope":"order:/1","access":"read"}]}`), "Idempotency-Key",
			"touch"),
	}
	for name, request := range inside {
		if status, p, _ := a.send(t, request); status != http.StatusOK {
			t.Fatalf("%s: %d %+v", name, status, p)
		}
	}
	tool := with(rawCall{method: "PUT", path: "/v1/tools/t", body: `{"signature":"1"}`}, "Idempotency-Key", "tool")
	if status, p, _ := a.send(t, tool); status != http.StatusOK {
		t.Fatalf("the tool: %d %+v", status, p)
	}
	refused := with(post("/v1/effects", `{"tool":"x","args":{}}`), "Idempotency-Key", "refused")
	if status, _, _ := a.send(t, refused); status != http.StatusUnprocessableEntity {
		t.Fatalf("without a policy: %d", status)
	}
	b := reborn(t, log, "a", a.die(t, door))
	if status, _, now := b.send(t, begin); status != http.StatusCreated || now.Get("Location") != at ||
		now.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the begin: %d %v", status, now)
	}
	if status, p, now := b.send(t, refused); status != http.StatusUnprocessableEntity || p.Code != api.CodeNoPolicy ||
		now.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the refusal: %d %+v", status, p)
	}
	for name, request := range inside {
		if status, p, _ := b.send(t, request); status != http.StatusGone || p.Code != api.CodeSessionLost {
			t.Errorf("%s: %d %+v", name, status, p)
		}
	}
	if status, _, now := b.send(t, tool); status != http.StatusOK || now.Get("Idempotency-Replayed") != "" {
		t.Errorf("the tool, which this process does not know: %d %v", status, now)
	}
	begin.body = `{"mode":"ordered"}`
	if status, p, _ := b.send(t, begin); status != http.StatusUnprocessableEntity || p.Code != api.CodeKeyReused {
		t.Errorf("another request with the begin's key: %d %+v", status, p)
	}
}

// Beyond the bound on bytes the oldest answers go; their requests are not done again.
func TestIdempotencyBytes(t *testing.T) {
	log, world := newLog(), newSink()
	a := start(t, "a", log.Door(), quick(world), func(c *setup) { c.Limits.IdempotencyBytes = 16 << 10 })
	mail := with(post("/v1/effects", `{"tool":"mail","args":{"at":"x"}}`), "Idempotency-Key", "mail")
	if status, p, _ := a.send(t, mail); status != http.StatusOK {
		t.Fatalf("%d %+v", status, p)
	}
	group := with(post(inDefault+"/groups", `{"branches":2}`), "Idempotency-Key", "group")
	a.send(t, group)
	for i := range 40 {
		key := fmt.Sprintf("begin %d", i)
		a.send(t, with(post(inDefault+"/tx", ""), "Idempotency-Key", key))
	}
	if status, p, header := a.send(t, mail); status != http.StatusOK || header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the answer was dropped, its transaction is known: %d %+v", status, p)
	}
	if status, p, _ := a.send(t, group); status != http.StatusGone || p.Code != api.CodeForgotten {
		t.Errorf("the answer was dropped, and nothing says what it was: %d %+v", status, p)
	}
	if n := len(committed(log)); n != 1 {
		t.Errorf("%d commits for one key", n)
	}
}

// swap sends requests to one sidecar. The first answer to a path is lost, and the next try meets another sidecar at
// the same address.
type swap struct {
	mu   sync.Mutex
	path string
	to   *url.URL
	lost func() *url.URL
	keys []string
}

func (s *swap) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = r.Clone(r.Context())
	r.URL.Host = s.to.Host
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || r.URL.Path != s.path {
		return resp, err
	}
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	if s.lost == nil {
		return resp, nil
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	s.to, s.lost = s.lost(), nil
	return nil, errors.New("connection reset by peer")
}

// One call of the client, whose sidecar is killed before the answer arrives and started again, counts once.
func TestClientRetriesAcrossARestart(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	ctx := background(t)
	log, world := newLog(), newSink()
	door := log.Door()
	const token = "0123456789abcdef0123"
	a := start(t, "a", door, quick(world), func(c *setup) { c.Token = token })
	s := &swap{path: "/v1/effects", to: must(url.Parse(a.URL()))(t)}
	s.lost = func() *url.URL {
		a.final(ctx, t, "a.1.1")
		b := reborn(t, log, "a", a.die(t, door), quick(world), func(c *setup) { c.Token = token })
		return must(url.Parse(b.URL()))(t)
	}
	cl := client.New(a.URL(), token, client.WithHTTPClient(&http.Client{Transport: s}))
	done := must(cl.Do(ctx, "mail", at{At: "x"}, client.EffectOptions{}))(t)
	if done.Tx != "a.1.1" || done.Decision.State != api.StateCommitted || len(s.keys) != 2 || s.keys[0] != s.keys[1] {
		t.Errorf("%+v after tries with the keys %v", done, s.keys)
	}
	world.expect(t, "mail x")
	if n := len(committed(log)); n != 1 {
		t.Errorf("%d commits for one call", n)
	}
}
