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

// speaker is a sink that says what it is told to say.
type speaker struct {
	status         int
	body, replayed string
}

// speaks is an adapter of a speaker's; what that says is set before each call, whose connection orders it before.
func speaks(t *testing.T) (gate.Adapter, *speaker) {
	s := &speaker{}
	r := record(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X-Replayed", s.replayed)
		if req.URL.Path == "/moved" {
			http.Redirect(w, req, "/", http.StatusFound)
			return
		}
		w.WriteHeader(s.status)
		fmt.Fprint(w, s.body)
	})
	spec := gate.HTTPSpec{Method: "POST", URL: r.URL, Done: []int{303}, Replayed: "X-Replayed",
		DoneWhen:    gate.When{"ok": []byte(`true`), "errors": []byte(`null`)},
		RefusedWhen: gate.When{"ok": []byte(`false`), "error.code": []byte(`["declined",17]`)},
		LookUp: &gate.HTTPLookUp{URL: r.URL + "/{way}", Absent: []int{200, 404},
			AbsentWhen: gate.When{"data": []byte(`[[]]`)}, FoundWhen: gate.When{"data.0.ok": []byte(`true`)}}}
	return build(t, gate.KindHTTP, r.env(""), spec), s
}

// judged names what an adapter made of an answer.
func judged(answer gate.Answer, err error) string {
	switch {
	case errors.Is(err, gate.ErrUnknown):
		return "unknown"
	case err != nil:
		return err.Error()
	case answer.Absent:
		return "absent"
	case answer.AboutKey:
		return "refused by the key"
	case answer.Refused:
		return "refused"
	}
	return "done"
}

// TestHTTPBodies judges answers by what they say.
func TestHTTPBodies(t *testing.T) {
	a, s := speaks(t)
	for _, c := range []struct {
		says speaker
		want string
	}{
		{speaker{200, `{"ok":true}`, ""}, "done"}, {speaker{303, `{"ok":true}`, ""}, "done"},
		{speaker{200, `{"ok":true,"errors":[]}`, ""}, "unknown"}, {speaker{200, `{"ok":"true"}`, ""}, "unknown"},
		{speaker{200, `{}`, ""}, "unknown"}, {speaker{200, `<html>log in</html>`, ""}, "unknown"},
		{speaker{200, `{"ok":false,"error":{"code":"declined"}}`, ""}, "refused"},
		{speaker{200, `{"ok":false,"error":{"code":17}}`, ""}, "refused"},
		{speaker{200, `{"ok":false,"error":{"code":18}}`, ""}, "unknown"},
		{speaker{200, `{"ok":false,"error":"declined"}`, ""}, "unknown"}, {speaker{503, `{"ok":true}`, ""}, "unknown"},
		{speaker{200, `{"ok":false,"error":{"code":17}}`, "true"}, "refused by the key"},
		{speaker{422, ``, "true"}, "refused by the key"}, {speaker{422, ``, "false"}, "refused"},
		{speaker{200, `{"ok":true}` + strings.Repeat(" ", MaxAnswer), ""}, "unknown"},
	} {
		*s = c.says
		if got := judged(a.Call(t.Context(), call("k", `{}`))); got != c.want {
			t.Errorf("%.80v: %s, want %s", c.says, got, c.want)
		}
	}
}

// TestHTTPLookUpBodies believes a look-up only if the sink's record speaks, and not what stands before it.
func TestHTTPLookUpBodies(t *testing.T) {
	a, s := speaks(t)
	for _, c := range []struct {
		status          int
		way, body, want string
	}{
		{200, "keys", `{"data":[{"ok":true}]}`, "done"}, {200, "keys", `{"data":[]}`, "absent"},
		{404, "keys", `{"data":[]}`, "absent"}, {200, "keys", `{"error":"log in"}`, "unknown"},
		{404, "keys", `no such page`, "unknown"}, {401, "keys", ``, "unknown"}, {503, "keys", `{"data":[]}`, "unknown"},
		{200, "moved", `{"data":[{"ok":true}]}`, "unknown"},
	} {
		*s = speaker{status: c.status, body: c.body}
		if got := judged(a.LookUp(t.Context(), call("k", fmt.Sprintf(`{"way":%q}`, c.way)))); got != c.want {
			t.Errorf("the look-up %d %s %s: %s, want %s", c.status, c.way, c.body, got, c.want)
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
