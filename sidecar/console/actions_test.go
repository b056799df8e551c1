package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
)

// operator notes what a sidecar was asked for.
type operator struct{ asked []string }

func (o *operator) AcceptResidue(_ context.Context, tx string, index uint32, note string) (api.Residue, error) {
	o.asked = append(o.asked, fmt.Sprintf("accept %s/%d: %s", tx, index, note))
	return api.Residue{Tx: tx, State: "accepted"}, nil
}

func (o *operator) RetryResidueWith(_ context.Context, tx string, index uint32,
	allowed api.RetryResidue) (api.Residue, error) {
	o.asked = append(o.asked, fmt.Sprintf("retry %s/%d %v %v", tx, index, allowed.Force, allowed.ChangedTool))
	return api.Residue{}, &api.Problem{Status: http.StatusConflict, Code: "no_key", Detail: "look there first"}
}

func (o *operator) Retract(_ context.Context, tx, reason string, dry bool) (api.Retraction, error) {
	o.asked = append(o.asked, fmt.Sprintf("retract %s %s %v", tx, reason, dry))
	return api.Retraction{Tx: tx, State: api.RetractRunning, Total: 2}, nil
}

func (o *operator) ApproveAs(_ context.Context, token, tx string, index uint32, yes bool,
	args string) (api.Decision, error) {
	o.asked = append(o.asked, fmt.Sprintf("word %s/%d %v by %s on %s", tx, index, yes, token, args))
	if token != "ann's" {
		return api.Decision{}, &api.Problem{Status: http.StatusUnauthorized, Code: api.CodeUnauthorized}
	}
	return api.Decision{Tx: tx, State: api.StateCommitted}, nil
}

// TestActions: what an operator asks for reaches the sidecar, its refusals come back as they are, and what cannot be
// understood goes no further.
func TestActions(t *testing.T) {
	o := &operator{}
	w := newWorld(t, func(c *Config) { c.Actions = o })
	for _, c := range []struct {
		path, body string
		status     int
		has        string
	}{
		{"/api/residue/a.1.1/2/accept", `{"note":"M, seen"}`, 200, `"accepted"`},
		{"/api/residue/a.1.1/2/accept", `{}`, 400, "who accepts it"},
		{"/api/residue/a.1.1/x/accept", `{"note":"M"}`, 400, "place of an effect"},
		{"/api/residue/a.1.1/0/retry", `{"force":true,"changed_tool":true}`, 409, "look there first"},
		{"/api/residue/a.1.1/0/retry", `{"force":`, 400, "JSON"},
		{"/api/residue/a.1.1/0/retry", strings.Repeat(" ", maxBody+1), 400, "small"},
		{"/api/effects/a.1.1/2/approve", `{"token":"ann's","args_sha256":"ab"}`, 200, `"committed"`},
		{"/api/effects/a.1.1/2/deny", `{"token":"mine","args_sha256":"ab"}`, 403, "approver_only"},
		{"/api/effects/a.1.1/2/deny", `{"args_sha256":"ab"}`, 400, "token"},
		{"/api/effects/a.1.1/2/approve", `{"token":"ann's"}`, 400, "args_sha256"},
		{"/api/tx/a.1.1/retract", `{"reason":"a slip"}`, 200, `"retracting"`},
	} {
		resp, body := w.ask("POST", c.path, c.body, nil)
		if resp.StatusCode != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%s %.30s: %s %s; want %d with %q", c.path, c.body, resp.Status, body, c.status, c.has)
		}
	}
	want := "accept a.1.1/2: M, seen|retry a.1.1/0 true true|word a.1.1/2 true by ann's on ab|" +
		"word a.1.1/2 false by mine on ab|retract a.1.1 a slip false"
	if got := strings.Join(o.asked, "|"); got != want {
		t.Errorf("the sidecar was asked for %s; want %s", got, want)
	}
	if list := get[residueList](w, "/api/residue"); !list.Actions {
		t.Error("the list does not say that an operator may act")
	}
}
