package adapters

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/gate/upstream/mcptest"
	"github.com/hence-dev/hence/sequencer"
)

// mcpOver is an adapter over a server of the tests, with the calls that the server has seen.
func mcpOver(t *testing.T, class sequencer.Class, spec string) (a gate.Adapter, made func() []string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	set := upstream.Open(map[string]upstream.Server{"s": mcptest.Config(mcptest.Good, log)},
		upstream.Options{Start: 20 * time.Second})
	t.Cleanup(set.Close)
	a, err := Over(set)(gate.Decl{Tool: "s__*", Kind: gate.KindMCP, Class: class, Spec: json.RawMessage(spec)})
	if err != nil {
		t.Fatal(err)
	}
	return a, func() []string { return mcptest.Made(log) }
}

func mcpCall(tool, args string) gate.Call {
	return gate.Call{Tool: tool, Args: json.RawMessage(args), Key: "k"}
}

// A tool's name at its server is the called one without the server's. The result is handed on whole, under the key.
func TestMCPResult(t *testing.T) {
	a, made := mcpOver(t, sequencer.ClassIrreversible, `{"server":"s"}`)
	got, err := a.Call(t.Context(), mcpCall("s__note", `{"at":"x"}`))
	if err != nil || got.Refused || !strings.Contains(string(got.Result), `"structuredContent":{"said":"note x"}`) {
		t.Errorf("%+v, %v", got, err)
	}
	if !slices.Equal(made(), []string{"note:x:k"}) {
		t.Errorf("%q", made())
	}
	if _, err := a.LookUp(t.Context(), mcpCall("s__note", `{}`)); !errors.Is(err, gate.ErrNoLookup) {
		t.Errorf("%v", err)
	}
	named, _ := mcpOver(t, sequencer.ClassIrreversible, `{"server":"s","tool":"note"}`)
	got, err = named.Call(t.Context(), mcpCall("other", `{"at":"y"}`))
	if err != nil || !strings.Contains(string(got.Result), "note y") {
		t.Errorf("%+v, %v", got, err)
	}
}

// What a tool says of its own failure proves nothing of an effect, unless the policy says so; of a read it is the
// result. What its server does not let in was not made.
func TestMCPFailures(t *testing.T) {
	for _, c := range []struct {
		class            sequencer.Class
		spec, tool, args string
		refused, unknown bool
		result           string
	}{
		{sequencer.ClassRead, `{"server":"s"}`, "s__fail", `{}`, false, false, "it does not fit"},
		{sequencer.ClassIrreversible, `{"server":"s"}`, "s__fail", `{}`, false, true, ""},
		{sequencer.ClassIrreversible, `{"server":"s","error":"refused"}`, "s__fail", `{}`, true, false, "it does not fit"},
		{sequencer.ClassReversible, `{"server":"s","error":"unknown"}`, "s__fail", `{}`, false, true, ""},
		{sequencer.ClassIrreversible, `{"server":"s"}`, "s__note", `{"at":"invalid"}`, true, false, `"code":-32602`},
		{sequencer.ClassRead, `{"server":"s"}`, "s__look", `{"at":"invalid"}`, false, false, `"code":-32602`},
	} {
		a, _ := mcpOver(t, c.class, c.spec)
		got, err := a.Call(t.Context(), mcpCall(c.tool, c.args))
		if errors.Is(err, gate.ErrUnknown) != c.unknown || got.Refused != c.refused ||
			!strings.Contains(string(got.Result), c.result) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
		if c.unknown && !strings.Contains(err.Error(), "it does not fit") {
			t.Errorf("%+v: nobody is told what the tool said: %v", c, err)
		}
	}
}

// A tool that is gone, or has other schemas than the policy relies on, is not called.
func TestMCPChanged(t *testing.T) {
	a, made := mcpOver(t, sequencer.ClassIrreversible, `{"server":"s","tool":"note","schema":"sha256:former"}`)
	if _, err := a.Call(t.Context(), mcpCall("s__note", `{}`)); !errors.Is(err, gate.ErrNotSent) {
		t.Errorf("%v", err)
	}
	check := a.(gate.Checker).Check(mcpCall("s__note", `{}`))
	if !errors.Is(check, gate.ErrNotSent) || !strings.Contains(check.Error(), "write its new hash") {
		t.Errorf("%v", check)
	}
	b, _ := mcpOver(t, sequencer.ClassIrreversible, `{"server":"s"}`)
	if _, err := b.Call(t.Context(), mcpCall("s__none", `{}`)); !errors.Is(err, gate.ErrNotSent) {
		t.Errorf("%v", err)
	}
	if len(made()) > 0 {
		t.Errorf("%q", made())
	}
}

// A declaration that names no configured server is refused at the start; a process without servers calls none.
func TestMCPDeclared(t *testing.T) {
	set := upstream.Open(map[string]upstream.Server{"s": mcptest.Config(mcptest.Hang, "")}, upstream.Options{})
	defer set.Close()
	decl := gate.Decl{Tool: "x", Kind: gate.KindMCP, Spec: json.RawMessage(`{"server":"other"}`)}
	if _, err := Over(set)(decl); err == nil || !strings.Contains(err.Error(), "name one of s") {
		t.Errorf("%v", err)
	}
	a, err := Build(decl)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Call(t.Context(), mcpCall("x", `{}`))
	if !errors.Is(err, gate.ErrNotSent) || !strings.Contains(err.Error(), "--mcp") {
		t.Errorf("%v", err)
	}
}
