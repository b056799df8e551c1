package beside

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar"
)

// A program that runs beside its sidecar sees nothing of the operator's token.
func TestOperatorTokenStaysHere(t *testing.T) {
	side, err := sidecar.New(sidecar.Config{Agent: "a"}, nil) // it is not run
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	c := Companion{Config: sidecar.Config{Agent: "a"}}
	env := c.Environment([]string{"HENCE_OPERATOR_TOKEN=secret", "HENCE_OPERATOR_TOKEN_FILE=/secret",
		"HENCE_TOKEN_FILE=/t", "PATH=/bin"}, nil, side)
	text := strings.Join(env, "\n")
	if strings.Contains(text, "secret") || !strings.Contains(text, "PATH=/bin\n") {
		t.Errorf("the program sees\n%s", text)
	}
}

// The credentials of the operator who starts a program are not the program's: with an approver's token it would
// approve its own calls. What the agents' file sets for an agent is given to it.
func TestCredentialsStayHere(t *testing.T) {
	side, err := sidecar.New(sidecar.Config{Agent: "a"}, nil) // it is not run
	if err != nil {
		t.Fatal(err)
	}
	defer side.Close()
	c := Companion{Config: sidecar.Config{Agent: "a"}}
	for _, name := range []string{"HENCE_APPROVER_TOKEN", "HENCE_APPROVER_TOKEN_FILE", "HENCE_SIDECAR_TOKEN",
		"HENCE_SIDECAR_TOKEN_FILE", "HENCE_SIDECAR_KEY_FILE", "HENCE_KEY_FILE"} {
		inherited := []string{name + "=secret", "HENCE_SIDECAR=https://h", "PATH=/bin"}
		text := strings.Join(c.Environment(inherited, nil, side), "\n")
		if strings.Contains(text, "secret") || !strings.Contains(text, "HENCE_SIDECAR=https://h\nPATH=/bin\n") {
			t.Errorf("with %s set the program sees\n%s", name, text)
		}
		text = strings.Join(c.Environment(inherited, []string{name + "=given"}, side), "\n")
		if strings.Contains(text, "secret") || !strings.Contains(text, name+"=given\n") {
			t.Errorf("with %s of its own the program sees\n%s", name, text)
		}
	}
}
