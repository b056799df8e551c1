package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/gate/upstream/mcptest"
	"github.com/hence-dev/hence/sequencer"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// build makes an adapter of a specification.
func build(tb testing.TB, kind string, env gate.Env, spec any) gate.Adapter {
	tb.Helper()
	a, err := Build(gate.Decl{Tool: "t", Kind: kind, Spec: toJSON(spec), Env: env})
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func call(key, args string) gate.Call {
	return gate.Call{Tool: "t", Tx: sequencer.TxID("t1"), Index: 2, Key: key, Args: json.RawMessage(args)}
}

// subject is a sink with keys behind an adapter.
type subject struct {
	do, undo gate.Adapter
	args     string
	count    func() int // calls that did something, compensations not among them
	look     bool
	own      bool // the adapter itself keeps the keys
}

// keyed are the subjects that every build has; PostgreSQL is added by its own test.
func keyed(t *testing.T) map[string]func(*testing.T) subject {
	return map[string]func(*testing.T) subject{"http": httpSubject, "file": fileSubject}
}

func startLedger(t *testing.T, o sinks.LedgerOptions) *sinks.Ledger {
	t.Helper()
	l, err := sinks.StartLedger(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func httpSubject(t *testing.T) subject {
	l := startLedger(t, sinks.LedgerOptions{})
	env := gate.Env{Hosts: []string{l.Addr()}}
	spec := gate.HTTPSpec{Method: "POST", URL: l.URL() + "/charges",
		LookUp: &gate.HTTPLookUp{URL: l.URL() + "/keys/{$key}"}}
	return subject{do: build(t, gate.KindHTTP, env, spec), undo: build(t, gate.KindHTTP, env, spec), args: `{"n":1}`,
		look: true, count: func() int {
			n := 0
			for _, e := range l.Entries() {
				if e.Compensates == "" {
					n++
				}
			}
			return n
		}}
}

func fileSubject(t *testing.T) subject {
	root := t.TempDir()
	env := gate.Env{Root: root}
	return subject{
		do:   build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpAppend, Path: "log.txt", Content: "{line}\n"}),
		undo: build(t, gate.KindFile, env, gate.FileSpec{Op: gate.OpRestore}), args: `{"line":"one"}`, look: true,
		own: true,
		count: func() int {
			data, err := os.ReadFile(filepath.Join(root, "log.txt"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return strings.Count(string(data), "\n")
		}}
}

// TestConformance holds every adapter with keys to what the gate builds on.
func TestConformance(t *testing.T) {
	for name, make := range keyed(t) {
		t.Run(name, func(t *testing.T) { conform(t, make) })
	}
}

func conform(t *testing.T, make func(*testing.T) subject) {
	t.Run("once", func(t *testing.T) { once(t, make(t)) })
	t.Run("compensated", func(t *testing.T) { compensated(t, make(t)) })
	t.Run("undone before it came", func(t *testing.T) { undoneFirst(t, make(t)) })
	t.Run("other arguments", func(t *testing.T) {
		s := make(t)
		must(t, s.do, call("k", s.args))
		a, err := s.do.Call(t.Context(), call("k", strings.Replace(s.args, "1", "2", 1)+" "))
		if strings.Contains(s.args, "1") && (err != nil || !a.Refused) {
			t.Errorf("a key with other arguments: %+v, %v", a, err)
		}
		other := call("k", strings.NewReplacer("1", "2", "one", "two").Replace(s.args))
		if a, err := s.do.LookUp(t.Context(), other); s.own && (err != nil || !a.Refused || !a.AboutKey) {
			t.Errorf("the look-up of another call under the key: %+v, %v", a, err)
		}
		if s.count() != 1 {
			t.Errorf("%d effects, want 1", s.count())
		}
	})
	t.Run("look-up", func(t *testing.T) {
		s := make(t)
		if a, err := s.do.LookUp(t.Context(), call("k", s.args)); err != nil || !a.Absent {
			t.Fatalf("before the call: %+v, %v; want absent", a, err)
		}
		must(t, s.do, call("k", s.args))
		if a, err := s.do.LookUp(t.Context(), call("k", s.args)); err != nil || a.Absent || a.Refused {
			t.Fatalf("after the call: %+v, %v; want its answer", a, err)
		}
	})
	t.Run("without time", func(t *testing.T) {
		s := make(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.do.Call(ctx, call("k", s.args))
		if err == nil || errors.Is(err, gate.ErrNotSent) && s.count() != 0 {
			t.Errorf("a call whose time is over: %v with %d effects", err, s.count())
		}
	})
}

func must(t *testing.T, a gate.Adapter, c gate.Call) gate.Answer {
	t.Helper()
	answer, err := a.Call(t.Context(), c)
	if err != nil || answer.Refused || answer.Absent {
		t.Fatalf("call %s: %+v, %v", c.Key, answer, err)
	}
	return answer
}

func once(t *testing.T, s subject) {
	first := must(t, s.do, call("k", s.args))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			a, err := s.do.Call(t.Context(), call("k", " "+s.args))
			if err != nil || string(a.Result) != string(first.Result) {
				t.Errorf("repetition %d: %s, %v; want %s", i, a.Result, err, first.Result)
			}
			if _, err := s.do.Call(t.Context(), call("other", s.args)); err != nil {
				t.Errorf("another key: %v", err)
			}
		})
	}
	wg.Wait()
	if s.count() != 2 {
		t.Errorf("%d effects of 2 keys", s.count())
	}
}

func compensated(t *testing.T, s subject) {
	before := s.count()
	done := must(t, s.do, call("k", s.args))
	undo := call("k/undo", s.args)
	undo.Compensates, undo.Saved = "k", done.Saved
	must(t, s.undo, undo)
	must(t, s.undo, undo)
	a, err := s.do.Call(t.Context(), call("k", s.args))
	if err != nil || !a.Refused {
		t.Errorf("a compensated key is sent again: %+v, %v; want it refused", a, err)
	}
	if n := s.count() - before; n > 1 {
		t.Errorf("%d effects, want one at most", n)
	}
}

func undoneFirst(t *testing.T, s subject) {
	undo := call("k/undo", s.args)
	undo.Compensates = "k"
	must(t, s.undo, undo)
	if a, err := s.do.Call(t.Context(), call("k", s.args)); err != nil || !a.Refused {
		t.Errorf("the call comes after its compensation: %+v, %v; want it refused", a, err)
	}
	if s.count() != 0 {
		t.Errorf("%d effects, want 0", s.count())
	}
}

// TestUnknown has each sink act, or perhaps act, without an answer.
func TestUnknown(t *testing.T) {
	late := sinks.Faults{Late: 1, Delay: time.Hour}
	l := startLedger(t, sinks.LedgerOptions{Faults: late})
	lost := startLedger(t, sinks.LedgerOptions{Faults: sinks.Faults{Lose: 1}})
	box := startMailbox(t, sinks.MailboxOptions{Faults: late})
	gone := startMailbox(t, sinks.MailboxOptions{Faults: sinks.Faults{Lose: 1}})
	post := func(l *sinks.Ledger) gate.Adapter {
		spec := gate.HTTPSpec{Method: "POST", URL: l.URL() + "/x"}
		return build(t, gate.KindHTTP, gate.Env{Hosts: []string{l.Addr()}}, spec)
	}
	for name, a := range map[string]gate.Adapter{
		"http late": post(l), "http lost": post(lost),
		"smtp late": build(t, gate.KindSMTP, mailEnv(box), mailSpec()),
		"smtp lost": build(t, gate.KindSMTP, mailEnv(gone), mailSpec()),
		"exec late": build(t, gate.KindExec, gate.Env{}, gate.ExecSpec{Argv: []string{"sleep", "3600"}}),
		"exec fail": build(t, gate.KindExec, gate.Env{}, gate.ExecSpec{Argv: []string{"false"}}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := a.Call(ctx, call("k", `{"to":"ann@example.com"}`))
			if err == nil || errors.Is(err, gate.ErrNotSent) {
				t.Errorf("%v; want an unknown outcome", err)
			}
		})
	}
	if len(lost.Entries()) != 1 || len(gone.Mails()) != 1 {
		t.Error("the sinks that lost their answers did not act")
	}
}

// TestNotSent has nothing listen, or the arguments be wrong.
func TestNotSent(t *testing.T) {
	const nobody = "127.0.0.1:1"
	env := gate.Env{Hosts: []string{nobody}, Root: t.TempDir(), Mail: &gate.Mail{Server: nobody, From: "s@example.com"}}
	for i, c := range []struct {
		kind, args string
		spec       any
	}{
		{gate.KindHTTP, `{}`, gate.HTTPSpec{Method: "POST", URL: "http://" + nobody + "/x"}},
		{gate.KindHTTP, `{}`, gate.HTTPSpec{Method: "GET", URL: "http://" + nobody + "/{id}"}},
		{gate.KindHTTP, `{"id":".."}`, gate.HTTPSpec{Method: "GET", URL: "http://" + nobody + "/{id}/x"}},
		{gate.KindHTTP, `[]`, gate.HTTPSpec{Method: "POST", URL: "http://" + nobody + "/x"}},
		{gate.KindHTTP, `{"v":"a\nb"}`, gate.HTTPSpec{Method: "GET", URL: "http://" + nobody,
			Headers: map[string]string{"X-V": "{v}"}}},
		{gate.KindSMTP, `{"to":"ann@example.com"}`, mailSpec()},
		{gate.KindSMTP, `{"to":"ann@example.com, bob@example.com"}`, mailSpec()},
		{gate.KindSMTP, `{"to":"ann@example.com\r\nBcc: bob@example.com"}`, mailSpec()},
		{gate.KindExec, `{}`, gate.ExecSpec{Argv: []string{"no-such-program-here"}}},
		{gate.KindExec, `{"a":"x\u0000y"}`, gate.ExecSpec{Argv: []string{"true", "{a}"}}},
		{gate.KindFile, `{"p":"../x"}`, gate.FileSpec{Op: gate.OpWrite, Path: "{p}"}},
		{gate.KindFile, `{"p":"/etc/x"}`, gate.FileSpec{Op: gate.OpWrite, Path: "{p}"}},
		{gate.KindFile, `{"p":".hence/lock"}`, gate.FileSpec{Op: gate.OpDelete, Path: "{p}"}},
		{gate.KindFile, `{"$key":"x","p":"a"}`, gate.FileSpec{Op: gate.OpWrite, Path: "{p}"}},
		{gate.KindShard, `{}`, gate.ShardSpec{Op: gate.OpWrite, Scope: "shard:/a"}},
	} {
		t.Run(fmt.Sprint(i, " ", c.kind), func(t *testing.T) {
			a, err := build(t, c.kind, env, c.spec).Call(t.Context(), call("k", c.args))
			if !errors.Is(err, gate.ErrNotSent) {
				t.Errorf("%+v, %v; want ErrNotSent", a, err)
			}
		})
	}
}

// TestBuildRefuses names declarations that cannot work.
func TestBuildRefuses(t *testing.T) {
	env := gate.Env{Root: t.TempDir(), Databases: map[string]gate.Database{"d": {}}, Mail: &gate.Mail{Server: "h:25"}}
	for i, c := range []struct {
		kind, spec, want string
	}{
		{"ftp", `{}`, "there is no adapter"},
		{gate.KindHTTP, `{"method":"GET","url":"http://h/","colour":1}`, "colour"},
		{gate.KindHTTP, `{"url":"http://h/"}`, "method"},
		{gate.KindHTTP, `{"method":"GET","url":"http://h/","headers":{"idempotency-key":"x"}}`, "set by the adapter"},
		{gate.KindHTTP, `{"method":"GET","url":"http://h/{"}`, "url"},
		{gate.KindSMTP, `{"subject":"s","text":"t"}`, "names no recipient"},
		{gate.KindFile, `{"op":"chmod","path":"a"}`, "op"},
		{gate.KindExec, `{"argv":["{program}"]}`, "program"},
		{gate.KindExec, `{"argv":[]}`, "program"},
		{gate.KindExec, `{"argv":["true"],"env":{"HENCE_KEY":"x"}}`, "HENCE_"},
		{gate.KindSQL, `{"database":"other","statement":"SELECT 1"}`, "not declared"},
		{gate.KindSQL, `{"database":"d","statement":"DELETE FROM t WHERE id = {id}"}`, "write $1"},
		{gate.KindSQL, `{"database":"d","statement":"DELETE FROM t","save":{"statement":"DELETE FROM t"}}`, "SELECT"},
		{gate.KindSQL, `{"database":"d","statement":" COMMIT"}`, "itself"},
		{gate.KindShard, `{"op":"delete","scope":"shard:/a"}`, "write read or write"},
		{gate.KindShard, `{"op":"read","scope":"shard:/a","type":"text/plain"}`, "leave type"},
	} {
		_, err := Build(gate.Decl{Tool: "t", Kind: c.kind, Spec: json.RawMessage(c.spec), Env: env})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %s: %v; want it to say %q", i, c.kind, err, c.want)
		}
	}
}
