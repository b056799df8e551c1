package cli

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/sidecar/client"
)

// trust is whom a client believes that a sidecar's certificate is its own.
type trust struct {
	CA string `name:"ca" type:"path" placeholder:"FILE" help:"PEM file of who else may sign the sidecar's certificate."`
}

func (t trust) client() (*http.Client, error) { return access.Client(t.CA) }

// tokens is how a sidecar is told what its callers must show.
type tokens struct {
	Token     string `placeholder:"TEXT" help:"What callers must show; generated when empty; safer in the environment."`
	TokenFile string `type:"path" placeholder:"FILE" help:"Read it from there; made, with mode 600, when missing."`
}

// obtain settles the token: the given one, the file's, or a new one. Then fresh says that nobody else knows it yet.
func (t *tokens) obtain(logger *slog.Logger) (fresh bool, err error) {
	if t.TokenFile == "" {
		if fresh = t.Token == ""; fresh {
			t.Token = rand.Text()
		}
		return fresh, nil
	}
	if t.Token != "" {
		return false, misused(errors.New("the token is given twice: leave out --token (or unset HENCE_TOKEN), or " +
			"--token-file"))
	}
	t.Token, err = access.KeepToken(logger, t.TokenFile)
	return false, err
}

// shown is the token as it may be printed: not when it is kept in a file.
func (t tokens) shown() string {
	if t.TokenFile != "" {
		return ""
	}
	return t.Token
}

// operators is how a sidecar is told what an operator must show.
type operators struct {
	OperatorToken     string `placeholder:"TEXT" help:"What an operator must show; by default in a file, as below."`
	OperatorTokenFile string `type:"path" placeholder:"FILE" help:"Made when missing; default: in the data folder."`
}

// obtainOperator settles the operator's token: the given one, the file's, or that of the file in the data folder.
// Without a folder it is empty, and the agent's token serves for both.
func (o operators) obtainOperator(logger *slog.Logger, dir string) (string, error) {
	switch {
	case o.OperatorToken != "" && o.OperatorTokenFile != "":
		return "", misused(errors.New("the operator's token is given twice: leave out --operator-token (or unset " +
			"HENCE_OPERATOR_TOKEN), or --operator-token-file"))
	case o.OperatorToken != "":
		return o.OperatorToken, nil
	case o.OperatorTokenFile != "":
		return access.KeepToken(logger, o.OperatorTokenFile)
	case dir == "":
		return "", nil
	}
	return access.KeepOperatorToken(logger, dir)
}

// asking is where a command finds the sidecar that it asks.
type asking struct {
	trust
	URL   string `name:"url" default:"http://127.0.0.1:7420" dev:"url" help:"Address of a sidecar of the workspace."`
	Token string `placeholder:"TEXT" dev:"token" help:"The sidecar's token. Prefer the environment to the flag."`

	TokenFile string `type:"path" placeholder:"FILE" help:"Read the token from there, if none is given."`

	http *http.Client
}

// AfterApply reads the files of the token and of whom to trust.
func (a *asking) AfterApply() (err error) {
	if a.http, err = a.trust.client(); err != nil {
		return err
	}
	if a.Token == "" && a.TokenFile != "" {
		a.Token, err = access.ReadToken(a.TokenFile)
	}
	return err
}

func (a asking) client(opts ...client.Option) *client.Client {
	return client.New(a.URL, a.Token, append(opts, client.WithHTTPClient(a.http))...)
}

// operating is where a command finds the sidecar that it asks for what only an operator may do.
type operating struct {
	asking
	OperatorToken     string `placeholder:"TEXT" dev:"operator_token" help:"The operator's token; by default, the token."`
	OperatorTokenFile string `type:"path" placeholder:"FILE" help:"Read it from there, if none is given."`
}

// AfterApply reads the token's file, and shows the operator's token instead of the agent's.
func (o *operating) AfterApply() (err error) {
	if o.OperatorToken == "" && o.OperatorTokenFile != "" {
		if o.OperatorToken, err = access.ReadToken(o.OperatorTokenFile); err != nil {
			return err
		}
	}
	if o.OperatorToken != "" {
		o.Token = o.OperatorToken
	}
	return nil
}
