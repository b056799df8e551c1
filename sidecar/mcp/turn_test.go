package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sidecar/api"
)

// shelf has the tools of two servers.
type shelf struct{}

func (shelf) States() []upstream.State {
	tool := func(server, name string) upstream.Tool {
		return upstream.Tool{Server: server, Name: name, Public: server + "__" + name}
	}
	return []upstream.State{{Name: "a", Tools: []upstream.Tool{tool("a", "read"), tool("a", "pay")}},
		{Name: "b", Tools: []upstream.Tool{tool("b", "read"), tool("b", "a__pay")}}}
}

func (shelf) Has(string) bool { return true }

func (shelf) Tool(string, string) (upstream.Tool, bool) { return upstream.Tool{}, false }

// A model's name of a tool means one tool or none, whatever the order in which they are looked at.
func TestNamesOfModels(t *testing.T) {
	f := New(Config{Upstreams: shelf{}})
	for name, want := range map[string]string{
		"a__pay": "a__pay", "pay": "a__pay", "mcp__hence__a__pay": "a__pay", "mcp__hence__b__a__pay": "b__a__pay",
		"read": "", "b__read": "b__read", "other": "", "xa__pay": "",
	} {
		for range 20 {
			if got, found := f.named(name); got != want || found != (want != "") {
				t.Fatalf("%s means %q, wanted %q", name, got, want)
			}
		}
	}
}

func uses(args ...string) (out []api.ToolUse) {
	for _, one := range args {
		out = append(out, api.ToolUse{Name: "a__pay", Args: json.RawMessage(one)})
	}
	return out
}

// Conversations that never go on do not keep later ones from having turns: the oldest one gives way.
func TestTooManyTurns(t *testing.T) {
	f := New(Config{Upstreams: shelf{}})
	for i := range maxTurns + 10 {
		f.Answered("a", strings.Repeat("x", i), uses("1", "2"))
	}
	if n := len(f.turns.open); n != maxTurns {
		t.Errorf("%d turns are open, at most %d may be", n, maxTurns)
	}
	if f.turns.open[[2]string{"a", ""}] != nil || f.turns.open[[2]string{"a", strings.Repeat("x", maxTurns+9)}] == nil {
		t.Error("the newest conversation has no turn, or the oldest still has one")
	}
}

// turnOf lets a model ask for two calls, and begins the second one's work.
func turnOf(t *testing.T) (f *Face, claim func(args string) (*turn, int), running *turn) {
	t.Helper()
	f = New(Config{Upstreams: shelf{}})
	f.Answered("a", "", uses(`{"n":1}`, `{"n":2}`))
	v := &visit{guest: &Guest{Name: "a"}}
	claim = func(args string) (*turn, int) {
		return f.claim(v, made{t: upstream.Tool{Public: "a__pay"}, args: json.RawMessage(args)})
	}
	running, place := claim(`{ "n" : 2 }`)
	if running == nil || place != 1 {
		t.Fatalf("the second call has the place %d", place)
	}
	return f, claim, running
}

// The last of its calls ends a turn; until then it waits, for a while.
func TestTurnEnds(t *testing.T) {
	f, claim, turn := turnOf(t)
	turn.came(nil)
	if len(f.turns.open) != 1 || turn.idle == nil {
		t.Fatal("it does not wait for the call that is missing")
	}
	if _, place := claim(`{"n":1}`); place != 0 {
		t.Fatalf("the first call has the place %d", place)
	}
	if turn.idle.Stop() {
		t.Error("it may end while a call is being made")
	}
	turn.came(nil)
	if len(f.turns.open) != 0 || !turn.over {
		t.Error("its last call did not end it")
	}
}

// No call joins a turn that is over, and the last of those that are being made then still ends it.
func TestTurnOver(t *testing.T) {
	f, claim, turn := turnOf(t)
	claim(`{"n":3}`) // that the answer did not ask for
	turn.end()
	if late, _ := claim(`{"n":1}`); late != nil {
		t.Error("a call joins a turn that is over")
	}
	turn.came(nil)
	if len(f.turns.open) != 1 {
		t.Error("it was closed while a call was being made")
	}
	turn.came(nil)
	if len(f.turns.open) != 0 || turn.idle != nil {
		t.Error("its last call did not close it")
	}
}

// A result that a tool gave is one, also with a member that an error of the protocol would have.
func TestErrorBesideContent(t *testing.T) {
	f := New(Config{Upstreams: shelf{}})
	for _, c := range []struct{ result, want string }{
		{`{"content":[{"type":"text","text":"sent"}],"error":{"code":7,"message":"no"}}`, "sent a.1.1"},
		{`{"content":[],"structuredContent":{"n":1},"error":{}}`, " a.1.1"},
		{`{"error":{"code":7,"message":"no"}}`, "no"},
	} {
		out, err := f.receipt(made{}, &api.Receipt{Tx: "a.1.1", State: api.EffectDone, Result: []byte(c.result)})
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		default:
			for _, one := range out.Content {
				got += one.(*sdk.TextContent).Text
			}
			got += " " + fmt.Sprint(out.Meta[MetaTx])
		}
		if got != c.want {
			t.Errorf("%s is answered with %q, wanted %q", c.result, got, c.want)
		}
	}
}

// What is open keeps its pins, and its conversation, however many transactions begin and end beside it.
func TestPinsOfWhatIsOpen(t *testing.T) {
	p := newPins()
	p.begin("a", "talk", "open")
	p.add("open", api.Pin{Name: "pay"})
	for i := range 2 * maxPinned {
		tx := fmt.Sprint(i)
		p.begin("a", "talk-"+tx, tx)
		p.add(tx, api.Pin{Name: "pay"})
		p.drop(tx)
	}
	if len(p.of("open")) != 1 || p.begun("a", "talk") != "open" {
		t.Errorf("it has %d pins, and its conversation the transaction %q", len(p.of("open")), p.begun("a", "talk"))
	}
	for i := range 2 * maxPinned { // and what never ends has a bound
		tx := fmt.Sprint(i)
		p.begin("a", "talk-"+tx, tx)
		p.add(tx, api.Pin{Name: "pay"})
	}
	for _, n := range []int{len(p.byTx), len(p.order), len(p.open), len(p.talks)} {
		if n != maxPinned {
			t.Errorf("%d are kept, at most %d may be", n, maxPinned)
		}
	}
}
