package adapters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// TestRefusedRepetition has a sink act without an answer, and turn the repetitions away at its door: what it says then
// is no answer to the first try.
func TestRefusedRepetition(t *testing.T) {
	unknown := []foreignFault{fails5xxAfter, turnedAway, turnedAway, turnedAway, turnedAway, turnedAway, turnedAway,
		turnedAway, turnedAway, turnedAway}
	start := func(tool string) (*rig, *foreign, []gate.Progress) {
		r := newRig(t, credentialsFirst, false)
		r.line.foreign = newForeign(credentialsFirst)
		return r, r.line.foreign, []gate.Progress{r.effect(t, 0, tool)}
	}
	t.Run("held", func(t *testing.T) {
		r, w, effects := start("pay")
		w.faults = unknown
		s, err := r.engine().Release(t.Context(), effects, gate.ClaimOwn)
		if err != nil || len(s.Residue) != 1 || s.Residue[0].Result != sequencer.ResultUnresolved {
			t.Fatalf("it happened and is told as %+v, %v", s, err)
		}
		for _, want := range []string{"refused now", "an earlier try was not answered", "look at the sink"} {
			if !strings.Contains(s.Residue[0].Detail, want) {
				t.Errorf("%q does not say %q", s.Residue[0].Detail, want)
			}
		}
	})
	t.Run("eager", func(t *testing.T) {
		r, w, effects := start("order")
		w.faults = unknown
		if _, err := r.engine().Run(t.Context(), effects[0].Effect); !errors.Is(err, gate.ErrGivenUp) {
			t.Fatalf("%v, want that it is given up", err)
		}
		w.faults, w.shut = nil, 0
		s, err := r.engine().Undo(t.Context(), w.journal(effects, gate.ClaimOwn), gate.ClaimOwn)
		if err != nil || len(s.Residue) != 1 || s.Residue[0].Result != sequencer.ResultUnresolved {
			t.Errorf("it happened and is told as %+v, %v", s, err)
		}
	})
	t.Run("a cure in time", func(t *testing.T) {
		r, w, effects := start("pay")
		w.faults = unknown[:2]
		s, err := r.engine().Release(t.Context(), effects, gate.ClaimOwn)
		if err != nil || len(s.Residue) != 0 || w.did["x0"] != 1 {
			t.Errorf("it is told as %+v, %v, and was done %d times", s, err, w.did["x0"])
		}
	})
	t.Run("undone", func(t *testing.T) {
		r, w, effects := start("order")
		if _, err := r.engine().Run(t.Context(), effects[0].Effect); err != nil {
			t.Fatal(err)
		}
		w.faults = unknown
		s, err := r.engine().Undo(t.Context(), w.journal(effects, gate.ClaimOwn), gate.ClaimOwn)
		if err != nil || len(s.Residue) != 1 || s.Residue[0].Result != sequencer.ResultUnresolved {
			t.Errorf("it was undone and is told as %+v, %v", s, err)
		}
	})
	t.Run("of a former owner", func(t *testing.T) {
		r, w, effects := start("pay")
		w.faults = []foreignFault{losesAnswer}
		w.dieAt = 5
		if w.lives(func() { _, _ = r.engine().Release(context.Background(), effects, gate.ClaimOwn) }) { // ends in a panic
			t.Fatal("the process did not die")
		}
		w.faults = unknown[1:]
		s, err := r.engine().Release(t.Context(), w.journal(effects, gate.ClaimSuccessor), gate.ClaimSuccessor)
		if err != nil || len(s.Residue) != 1 || s.Residue[0].Result != sequencer.ResultUnresolved || w.did["x0"] != 1 {
			t.Errorf("it was done %d times and is told as %+v, %v", w.did["x0"], s, err)
		}
	})
}

// sqlState is an error of a server.
type sqlState string

func (s sqlState) Error() string    { return "SQLSTATE " + string(s) }
func (s sqlState) SQLState() string { return string(s) }

// TestSQLStates holds which errors of a server prove that nothing happened, before and at the commit.
func TestSQLStates(t *testing.T) {
	a, s := &sqlAdapter{}, newSecrets(gate.Env{})
	verdictOf := func(answer gate.Answer, err error) string {
		switch {
		case err == nil && answer.Refused && !answer.AboutKey:
			return "refused"
		case errors.Is(err, gate.ErrNotSent):
			return "not sent"
		case errors.Is(err, gate.ErrUnknown):
			return "unknown"
		}
		return fmt.Sprint(answer, err)
	}
	for _, c := range []struct{ state, before, during string }{
		{"23505", "refused", "refused"}, {"22001", "refused", "refused"}, {"P0001", "refused", "refused"},
		{"42501", "refused", "refused"}, {"44000", "refused", "refused"},
		{"40001", "not sent", "not sent"}, {"40P01", "not sent", "not sent"}, {"40003", "not sent", "unknown"},
		{"25006", "not sent", "unknown"}, {"25P03", "not sent", "unknown"}, {"28P01", "not sent", "unknown"},
		{"53100", "not sent", "unknown"}, {"53300", "not sent", "unknown"}, {"55P03", "not sent", "unknown"},
		{"57014", "not sent", "unknown"}, {"57P01", "not sent", "unknown"}, {"57P03", "not sent", "unknown"},
		{"08006", "not sent", "unknown"}, {"58030", "not sent", "unknown"}, {"XX000", "refused", "unknown"},
		{"", "not sent", "unknown"},
	} {
		if got := verdictOf(a.before(s, sqlState(c.state))); got != c.before {
			t.Errorf("%s before the commit: %s, want %s", c.state, got, c.before)
		}
		if got := verdictOf(a.during(s, sqlState(c.state))); got != c.during {
			t.Errorf("%s of the commit: %s, want %s", c.state, got, c.during)
		}
	}
}

// TestHTTPBodies judges answers by what they say.
func TestHTTPBodies(t *testing.T) {
	var status int // set before each call, whose connection orders it before the handler
	var body, replayed string
	r := record(t, func(w http.ResponseWriter, req *http.Request) {
		if replayed != "" {
			w.Header().Set("X-Replayed", replayed)
		}
		if req.URL.Path == "/moved" {
			http.Redirect(w, req, "/", http.StatusFound)
			return
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	spec := gate.HTTPSpec{Method: "POST", URL: r.URL, Done: []int{303}, Replayed: "X-Replayed",
		DoneWhen:    gate.When{"ok": []byte(`true`), "errors": []byte(`null`)},
		RefusedWhen: gate.When{"ok": []byte(`false`), "error.code": []byte(`["declined",17]`)},
		LookUp: &gate.HTTPLookUp{URL: r.URL + "/{way?}", Absent: []int{200, 404},
			AbsentWhen: gate.When{"data": []byte(`[[]]`)}, FoundWhen: gate.When{"data.0.ok": []byte(`true`)}}}
	a := build(t, gate.KindHTTP, r.env(""), spec)
	for _, c := range []struct {
		status         int
		body, replayed string
		want           string
	}{
		{200, `{"ok":true}`, "", "done"}, {303, `{"ok":true}`, "", "done"}, {200, `{"ok":true,"errors":[]}`, "", "unknown"},
		{200, `{"ok":"true"}`, "", "unknown"}, {200, `{}`, "", "unknown"}, {200, `<html>log in</html>`, "", "unknown"},
		{200, `{"ok":false,"error":{"code":"declined"}}`, "", "refused"},
		{200, `{"ok":false,"error":{"code":17}}`, "", "refused"}, {200, `{"ok":false,"error":{"code":18}}`, "", "unknown"},
		{200, `{"ok":false,"error":"declined"}`, "", "unknown"}, {503, `{"ok":true}`, "", "unknown"},
		{200, `{"ok":false,"error":{"code":17}}`, "true", "refused by the key"}, {422, ``, "true", "refused by the key"},
		{422, ``, "false", "refused"}, {200, `{"ok":true}` + strings.Repeat(" ", MaxAnswer), "", "unknown"},
	} {
		status, body, replayed = c.status, c.body, c.replayed
		answer, err := a.Call(t.Context(), call("k", `{}`))
		got := "done"
		switch {
		case errors.Is(err, gate.ErrUnknown):
			got = "unknown"
		case err != nil:
			t.Error(err)
		case answer.AboutKey:
			got = "refused by the key"
		case answer.Refused:
			got = "refused"
		}
		if got != c.want {
			t.Errorf("%d %.60s: %s, want %s", c.status, c.body, got, c.want)
		}
	}
	for _, c := range []struct {
		status           int
		args, body, want string
	}{
		{200, `{}`, `{"data":[{"ok":true}]}`, "found"}, {200, `{}`, `{"data":[]}`, "absent"}, {404, `{}`, `{"data":[]}`, "absent"},
		{200, `{}`, `{"error":"log in"}`, "unknown"}, {404, `{}`, `no such page`, "unknown"}, {401, `{}`, ``, "unknown"},
		{503, `{}`, `{"data":[]}`, "unknown"}, {200, `{"way":"moved"}`, `{"data":[{"ok":true}]}`, "unknown"},
	} {
		status, body = c.status, c.body
		answer, err := a.LookUp(t.Context(), call("k", c.args))
		got := "found"
		switch {
		case errors.Is(err, gate.ErrUnknown):
			got = "unknown"
		case err != nil:
			t.Error(err)
		case answer.Absent:
			got = "absent"
		}
		if got != c.want {
			t.Errorf("the look-up %d %s %s: %s, want %s", c.status, c.args, c.body, got, c.want)
		}
	}
}

// TestForgottenKey has a sink that knows keys for a minute, and a successor that comes later: it does not repeat.
func TestForgottenKey(t *testing.T) {
	for _, age := range []time.Duration{foreignLife / 2, foreignLife} {
		r := newRig(t, forgetsKeys, false)
		w := newForeign(forgetsKeys)
		r.line.foreign = w
		effects := []gate.Progress{r.effect(t, 0, "pay")}
		effects[0].Started = true
		w.pass(age)
		s, err := r.engine().Release(t.Context(), effects, gate.ClaimSuccessor)
		if err != nil {
			t.Fatal(err)
		}
		want := sequencer.ResultClean
		if age == foreignLife {
			want = sequencer.ResultUnresolved
		}
		if s.Effects[0].Result != want || (w.did["x0"] == 1) != (want == sequencer.ResultClean) {
			t.Errorf("after %s it is told as %s and was done %d times", age, s.Effects[0].Result, w.did["x0"])
		}
	}
}
