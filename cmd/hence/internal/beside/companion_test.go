package beside

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar"
)

// environmentOf returns what makes the environment of a program beside a sidecar that is not run.
func environmentOf(t *testing.T) func(inherited, own []string) []string {
	t.Helper()
	side, err := sidecar.New(sidecar.Config{Agent: "a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = side.Close() })
	c := Companion{Config: sidecar.Config{Agent: "a"}}
	return func(inherited, own []string) []string { return c.Environment(inherited, own, side) }
}

// A program that runs beside its sidecar sees nothing of the operator's token.
func TestOperatorTokenStaysHere(t *testing.T) {
	environment := environmentOf(t)
	env := environment([]string{"HENCE_OPERATOR_TOKEN=secret", "HENCE_OPERATOR_TOKEN_FILE=/secret",
		"HENCE_TOKEN_FILE=/t", "PATH=/bin"}, nil)
	text := strings.Join(env, "\n")
	if strings.Contains(text, "secret") || !strings.Contains(text, "PATH=/bin\n") {
		t.Errorf("the program sees\n%s", text)
	}
}

// The credentials of the operator who starts a program are not the program's: with an approver's token it would
// approve its own calls. What the agents' file sets for an agent is given to it.
func TestCredentialsStayHere(t *testing.T) {
	environment := environmentOf(t)
	for _, name := range []string{"HENCE_APPROVER_TOKEN", "HENCE_APPROVER_TOKEN_FILE", "HENCE_SIDECAR_TOKEN",
		"HENCE_SIDECAR_TOKEN_FILE", "HENCE_SIDECAR_KEY_FILE", "HENCE_KEY_FILE"} {
		inherited := []string{name + "=secret", "HENCE_SIDECAR=https://h", "PATH=/bin"}
		text := strings.Join(environment(inherited, nil), "\n")
		if strings.Contains(text, "secret") || !strings.Contains(text, "HENCE_SIDECAR=https://h\nPATH=/bin\n") {
			t.Errorf("with %s set the program sees\n%s", name, text)
		}
		text = strings.Join(environment(inherited, []string{name + "=given"}), "\n")
		if strings.Contains(text, "secret") || !strings.Contains(text, name+"=given\n") {
			t.Errorf("with %s of its own the program sees\n%s", name, text)
		}
	}
}
