package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/doctor"
	"github.com/hence-dev/hence/cmd/hence/internal/up"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/api"
)

// forged is what a sink says that wants to be read as a row of its own, and as another text than it is.
const forged = "no: \x1b[2K\x1b[1A\x1b[2Ka.1.1  0  pay  clean\naccepted \u202egnp\u009b2K\x7f\u200b"

// TestPrintsPlainly holds that nothing that came from elsewhere moves the cursor of a terminal, adds a row or hides
// itself, whichever command prints it.
func TestPrintsPlainly(t *testing.T) {
	residue := &api.Residue{Tx: "a.1.1" + forged, Tool: forged, Key: forged, Scopes: []string{forged}, Result: "partial",
		State: "open", Detail: forged, Note: forged}
	for name, c := range map[string]struct {
		rows  int
		print func(io.Writer) error
	}{
		"residue": {5, func(w io.Writer) error { return printResidue(w, residue) }},
		"diagnose": {3, doctor.Diagnosis{Findings: []doctor.Finding{
			{Level: "ok", Part: forged, Says: forged, Fix: forged}}}.Write},
		"retract": {4, func(w io.Writer) error {
			return printRetraction(w, &api.Retraction{State: api.RetractDone, Tx: "a.1.1", Total: 1,
				BlockedBy: []api.Blocker{{Tx: forged, Why: forged}}, Cone: []api.ConeMember{{Tx: forged, Agent: forged,
					Why: forged, At: forged, Effects: []api.ConeEffect{{Tool: forged}}}}})
		}},
		"any other": {2, func(w io.Writer) error { _, err := io.WriteString(w, forged+"\n"); return err }},
		"up":        {3, up.Summary{Agents: []up.Result{{Agent: "a", Error: forged}}}.Write},
	} {
		var out bytes.Buffer
		if err := (output{}).print(&out, nil, c.print); err != nil {
			t.Fatal(err)
		}
		rows := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(rows) != c.rows {
			t.Errorf("%s: %d rows, want %d: %q", name, len(rows), c.rows, rows)
		}
		for _, row := range rows {
			if row != gate.Plain(row) {
				t.Errorf("%s prints %q", name, row)
			}
		}
	}
}

// TestPrintsPlainJSON holds the same of JSON, which stays the JSON of the same value.
func TestPrintsPlainJSON(t *testing.T) {
	want := api.Residue{Tx: "a.1.1", Detail: forged + " \U000e0041 größe"}
	var out bytes.Buffer
	if err := (output{Output: "json"}).print(&out, want, nil); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(out.String(), "\n")
	if text != gate.Plain(text) || !strings.Contains(text, "größe") {
		t.Errorf("it prints %q", text)
	}
	var got api.Residue
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Detail != want.Detail {
		t.Errorf("it is read as %q, %v", got.Detail, err)
	}
}
