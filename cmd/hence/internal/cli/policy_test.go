package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate/policy"
)

const examplePolicy = "../../../../docs/examples/policy.yaml"

// changedPolicy is the example with one text replaced.
func changedPolicy(t *testing.T, old, new string) string {
	t.Helper()
	data, err := os.ReadFile(examplePolicy)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		t.Fatalf("the example does not have %q", old)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPolicyOfTheExample(t *testing.T) {
	for _, verb := range [][]string{{"lint"}, {"test"}, {"fuzz", "--n", "500"}} {
		code, out, errs := hence(t, append(append([]string{"policy"}, verb...), examplePolicy)...)
		if code != ExitOK || errs != "" || !strings.Contains(out, " 0 mistakes") {
			t.Errorf("%s: exit code %d\n%s%s", verb, code, out, errs)
		}
	}
	code, out, _ := hence(t, "policy", "schema")
	if code != ExitOK || !bytes.Equal([]byte(out), policy.Schema()) {
		t.Errorf("schema: exit code %d, %d bytes", code, len(out))
	}
}

func TestPolicyFindsMistakes(t *testing.T) {
	for _, c := range []struct{ verb, old, new, rule string }{
		{"lint", `"mail:/{to|mail}", "order`, `"order`, "narrow-scope"},
		{"fuzz", "mail:/{to|mail}", "mail:/{to}", "alias"},
		{"test", "expect: {class: read, scopes", "expect: {class: irreversible, scopes", "case"},
	} {
		file := changedPolicy(t, c.old, c.new)
		code, out, _ := hence(t, "policy", c.verb, "-o", "json", file)
		var found PolicyFindings
		if err := json.Unmarshal([]byte(out), &found); err != nil || code != ExitCheck || found.Mistakes == 0 ||
			found.Mistakes+found.Notes != len(found.Findings) || found.Checked == 0 {
			t.Errorf("%s: exit code %d, %v\n%s", c.verb, code, err, out)
		}
		if !strings.Contains(out, `"rule":"`+c.rule+`"`) {
			t.Errorf("%s does not find %s:\n%s", c.verb, c.rule, out)
		}
		code, text, _ := hence(t, "policy", c.verb, file)
		if code != ExitCheck || !strings.Contains(text, "mistake: ") || !strings.Contains(text, "["+c.rule+"]") {
			t.Errorf("%s: exit code %d\n%s", c.verb, code, text)
		}
	}
}

func TestPolicyRefused(t *testing.T) {
	file := changedPolicy(t, "class: irreversible", "clas: irreversible")
	for _, verb := range []string{"lint", "test", "fuzz", "explain"} {
		args := []string{"policy", verb, file}
		if verb == "explain" {
			args = append(args, "mail.send", "{}")
		}
		code, _, errs := hence(t, args...)
		want := `policy.yaml:98:5: tool mail.send: a tool has no key "clas": write "class"`
		if code != ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d\n%s", verb, code, errs)
		}
	}
	for _, args := range [][]string{
		{"lint", "no.yaml"}, {"test", "--cases", "no.yaml", examplePolicy},
	} {
		if code, _, errs := hence(t, append([]string{"policy"}, args...)...); code != ExitFailed || errs == "" {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}

func TestPolicyCasesBeside(t *testing.T) {
	file := changedPolicy(t, "version: 1", "version: 1")
	beside := strings.TrimSuffix(file, ".yaml") + ".cases.yaml"
	write := func(class string) {
		text := "cases:\n  - {tool: order.get, args: {order_id: a}, expect: {class: " + class + "}}\n"
		if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("read")
	if code, out, errs := hence(t, "policy", "test", file); code != ExitOK || !strings.Contains(out, "15 cases") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	write("bufferable")
	if code, out, _ := hence(t, "policy", "test", file); code != ExitCheck || !strings.Contains(out, ".cases.yaml:2:") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	write("readd")
	if code, _, errs := hence(t, "policy", "test", file); code != ExitFailed || !strings.Contains(errs, ":2:") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

func TestPolicyExplain(t *testing.T) {
	const args = `{"order_id":"W17","cents":1}`
	code, out, _ := hence(t, "policy", "explain", "-o", "json", examplePolicy, "payment.charge", args)
	var e policy.Explanation
	if err := json.Unmarshal([]byte(out), &e); err != nil || code != ExitOK || e.Class != "irreversible" ||
		e.Key != "charge/w17" || e.Compensation != "payment.refund" || e.Adapter != "http" || len(e.Sentences) < 5 {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	code, out, _ = hence(t, "policy", "explain", examplePolicy, "payment.charge", `{"cents":1}`)
	if code != ExitCheck || !strings.Contains(out, `"order_id" is missing`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	code, out, _ = hence(t, "policy", "explain", examplePolicy, "payment.refund", args)
	if code != ExitCheck || !strings.Contains(out, "agents do not call it") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
