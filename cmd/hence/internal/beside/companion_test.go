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
