package policy

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestOneSpelling holds that a policy and its calls may be written composed or decomposed: tools are found, aliases
// and cases hold, and scopes are the same ones.
func TestOneSpelling(t *testing.T) {
	composed := `
types: {order: {aliases: [[` + "caf\u00e9, kaffee" + `]]}}
tools:
  - {tool: ` + "pay_\u00e9" + `, class: irreversible, scopes: ["order:/{id}", "` + "dir\u00e9" + `:/x"]}
`
	decomposed := `
strict: false
types: {order: {aliases: [[` + "cafe\u0301, kaffee" + `]]}}
tools:
  - {tool: ` + "pay_e\u0301" + `, class: known_outcome, keyed: true, undo_only: true,
     scopes: ["order:/{id}/` + "e\u0301" + `"]}
  - {tool: ` + "buy_?" + `, class: reversible, compensation: ` + "pay_e\u0301" + `,
     scopes: ["order:/{id}/` + "e\u0301" + `"]}
  - {tool: join, class: irreversible, scopes: ["order:/x{id}"]}
  - {tool: ` + "free_e\u0301" + `}
cases:
  - {tool: ` + "buy_\u00e9" + `, args: {id: ` + "cafe\u0301" + `},
     expect: {scopes: ["order:/` + "cafe\u0301/\u00e9" + `"]}}
`
	if _, err := Load([]byte(head+composed), Options{}); err == nil {
		t.Fatal("a scope's type beyond ASCII is taken")
	}
	p := load(t, decomposed)
	for _, tool := range []string{"buy_\u00e9", "buy_e\u0301"} {
		for _, id := range []string{"caf\u00e9", "cafe\u0301", "kaffee"} {
			args, err := json.Marshal(map[string]string{"id": id})
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Find(tool, args)
			if want := []sequencer.Scope{"order:/caf%C3%A9/%C3%A9"}; err != nil || !slices.Equal(got.Scopes, want) {
				t.Errorf("%q of %q: %v (%v)", tool, id, got.Scopes, err)
			}
		}
	}
	joined, err := p.Find("join", json.RawMessage(`{"id":"\u0301"}`)) // the accent joins what the template has before it
	if err != nil || !slices.Equal(joined.Scopes, []sequencer.Scope{"order:/x%CC%81"}) {
		t.Errorf("%v (%v)", joined.Scopes, err)
	}
	for _, tool := range []string{"free_\u00e9", "free_e\u0301"} {
		got, err := p.Find(tool, json.RawMessage("{}"))
		if want := []sequencer.Scope{"tool:/free_%C3%A9"}; err != nil || !slices.Equal(got.Scopes, want) {
			t.Errorf("%q: %v (%v)", tool, got.Scopes, err)
		}
	}
	if found := p.Test(p.Cases()); len(found) > 0 {
		t.Error(found)
	}
	if err := p.MayCall("pay_\u00e9"); err == nil {
		t.Error("a tool that only undoes may be called by its other spelling")
	}
}
