package cli

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/signature"
	"github.com/hence-dev/hence/topology/pause"
)

// trust is whom a client believes that a sidecar's certificate is its own.
type trust struct {
	CA string `name:"ca" type:"path" placeholder:"FILE" help:"CA certificate file for the sidecar, besides the system's."`
}

func (t trust) client() (*http.Client, error) { return access.Client(t.CA) }

// tokens is how a sidecar is told what its callers must show.
type tokens struct {
	Token     string `placeholder:"TEXT" help:"Token of callers; generated if empty; prefer the environment variable."`
	TokenFile string `type:"path" placeholder:"FILE" help:"Token file; created with mode 600 if it is missing."`
}

// obtain settles the token: the given one, the file's, or a new one. Then fresh says that it was just made.
func (t *tokens) obtain(logger *slog.Logger) (fresh bool, err error) {
	if t.TokenFile == "" {
		if fresh = t.Token == ""; fresh {
			t.Token = rand.Text()
		}
		return fresh, nil
	}
	if t.Token != "" {
		return false, misused(errors.New("the token is given twice: remove --token (or unset HENCE_TOKEN), or " +
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
	OperatorToken     string `placeholder:"TEXT" help:"Token of operators; default: from --operator-token-file."`
	OperatorTokenFile string `type:"path" placeholder:"FILE" help:"Operator token file; default: in the data folder."`
}

// obtainOperator settles the operator's token: the given one, the file's, or that of the file in the data folder.
// Without a folder it is empty, and the agent's token serves for both.
func (o operators) obtainOperator(logger *slog.Logger, dir string) (string, error) {
	switch {
	case o.OperatorToken != "" && o.OperatorTokenFile != "":
		return "", misused(errors.New("the operator token is given twice: remove --operator-token (or unset " +
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
	URL   string `name:"url" default:"http://127.0.0.1:7420" dev:"url" help:"URL of a sidecar of the workspace."`
	Token string `placeholder:"TEXT" dev:"token" help:"Token of the sidecar; prefer the environment variable."`

	TokenFile string `type:"path" placeholder:"FILE" help:"Token file, read if no token is given."`
	KeyFile   string `type:"path" placeholder:"FILE" help:"Private key file; it signs requests, and no token is shown."`

	key  ed25519.PrivateKey
	http *http.Client
}

// prepare reads the files of the token and of whom to trust.
func (a *asking) prepare() (err error) {
	if a.http, err = a.trust.client(); err != nil {
		return err
	}
	if a.KeyFile != "" {
		a.key, err = readKey(a.KeyFile)
		return err
	}
	if a.Token == "" && a.TokenFile != "" {
		a.Token, err = access.ReadToken(a.TokenFile)
	}
	return err
}

func (a asking) client(opts ...client.Option) *client.Client {
	if a.key != nil {
		opts = append(opts, client.WithKey(a.key))
	}
	return client.New(a.URL, a.Token, append(opts, client.WithHTTPClient(a.http))...)
}

// carrier sends requests with what they show.
func (a asking) carrier() http.RoundTripper {
	next := http.RoundTripper(http.DefaultTransport)
	if a.http != nil && a.http.Transport != nil {
		next = a.http.Transport
	}
	if a.key != nil {
		return signature.NewSigner(a.key).Transport(next)
	}
	return withToken{a.Token, next}
}

// withToken shows a token.
type withToken struct {
	token string
	next  http.RoundTripper
}

// RoundTrip is part of http.RoundTripper.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Response != nil { // whoever redirects would choose who is shown the token
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("a redirect leads to %s, and no token is shown there: give that address with --url if it is "+
			"the sidecar's", r.URL.Redacted())
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(r)
}

// operating is where a command finds the sidecar that it asks for what only an operator may do.
type operating struct {
	asking
	OperatorToken     string `placeholder:"TEXT" dev:"operator_token" help:"Operator token; default: the token."`
	OperatorTokenFile string `type:"path" placeholder:"FILE" help:"Operator token file, if no operator token is given."`
}

// prepare reads the tokens' files, and shows the operator's token instead of the agent's.
func (o *operating) prepare() (err error) {
	if err := o.asking.prepare(); err != nil {
		return err
	}
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

// tokenEvery is how often a token file that is not there is looked for.
const tokenEvery = 500 * time.Millisecond

// awaitToken reads a token file that another process makes at its first start. It waits for that, and says so once.
func awaitToken(ctx context.Context, logger *slog.Logger, path string) (string, error) {
	for said := false; ; said = true {
		token, err := access.ReadToken(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return token, err
		}
		if !said {
			logger.Warn("waiting for the token file: the sidecar creates it at its start", "file", path)
		}
		if err := pause.Sleep(ctx, tokenEvery); err != nil {
			return "", fmt.Errorf("wait for the token file %s: %w", path, err)
		}
	}
}

// https is how the sidecar's own listener speaks TLS.
type https struct {
	TLSCert string `name:"tls-cert" type:"path" placeholder:"FILE" help:"Certificate file; plain HTTP is then refused."`
	TLSKey  string `name:"tls-key" type:"path" placeholder:"FILE" help:"Key file of --tls-cert."`
}

// load reads certificate and key; nil: plain HTTP.
func (h https) load() (*tls.Config, error) {
	if h.TLSCert == "" && h.TLSKey == "" {
		return nil, nil
	}
	if h.TLSCert == "" || h.TLSKey == "" {
		return nil, misused(errors.New("--tls-cert and --tls-key go together: give both files or neither"))
	}
	pair, err := tls.LoadX509KeyPair(h.TLSCert, h.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("read --tls-cert and --tls-key, PEM files of one certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
