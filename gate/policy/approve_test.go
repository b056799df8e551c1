package policy

import (
	"slices"
	"testing"
)

// A tool that needs approval says so to the gate, to people, and in its signature: who takes the word away has
// declared another tool.
func TestApprove(t *testing.T) {
	const text = `version: 1
server: shop
hosts: ["a.example.com:443"]
tools:
  - tool: mail
    class: irreversible
    scopes: ["mail:/"]
`
	const adapter = "    http: {method: POST, url: \"https://a.example.com/\"}\n"
	signatures := map[bool]string{}
	for _, asks := range []bool{false, true} {
		more := ""
		if asks {
			more = "    approve: required\n"
		}
		p, err := Load([]byte(text+more+adapter), Options{File: "policy.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		tool, err := p.Find("mail", []byte(`{}`))
		if err != nil || tool.Approve != asks {
			t.Errorf("asks %v: %+v, %v", asks, tool, err)
		}
		signatures[asks] = tool.Pin.Signature
		said := slices.Contains(p.Explain("mail", []byte(`{}`)).Sentences,
			"An approver has to approve it before the transaction commits.")
		if said != asks {
			t.Errorf("asks %v, and the explanation says so: %v", asks, said)
		}
	}
	if signatures[false] == signatures[true] {
		t.Error("both declarations have one signature")
	}
}
