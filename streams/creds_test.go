package streams_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// signed is an operator, or an account: who signs for those below it.
type signed struct {
	t    *testing.T
	pair nkeys.KeyPair
	pub  string
}

func newSigned(t *testing.T, create func() (nkeys.KeyPair, error)) signed {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	pub, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return signed{t, pair, pub}
}

func (s signed) sign(claims jwt.Claims) string {
	s.t.Helper()
	token, err := claims.Encode(s.pair)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// user is the text of a credentials file of a user that s signs for.
func (s signed) user() string {
	s.t.Helper()
	u := newSigned(s.t, nkeys.CreateUser)
	seed, err := u.pair.Seed()
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(s.sign(jwt.NewUserClaims(u.pub)), seed)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// A credentials file of nsc's form is a login to a NATS that an operator runs; one of a stranger's account is refused
// with the reason, and a file put in its place is taken without a restart.
func TestCredentialsFile(t *testing.T) {
	operator := newSigned(t, nkeys.CreateOperator)
	system, account := newSigned(t, nkeys.CreateAccount), newSigned(t, nkeys.CreateAccount)
	stranger := newSigned(t, nkeys.CreateAccount)

	claims := jwt.NewAccountClaims(account.pub)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit,
		Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
	resolver := new(server.MemAccResolver)
	for pub, token := range map[string]string{account.pub: operator.sign(claims),
		system.pub: operator.sign(jwt.NewAccountClaims(system.pub))} {
		if err := resolver.Store(pub, token); err != nil {
			t.Fatal(err)
		}
	}
	root, err := jwt.DecodeOperatorClaims(operator.sign(jwt.NewOperatorClaims(operator.pub)))
	if err != nil {
		t.Fatal(err)
	}
	ns := teststreams.StartNATS(t, &server.Options{TrustedOperators: []*jwt.OperatorClaims{root},
		AccountResolver: resolver, SystemAccount: system.pub})

	file := teststreams.SecretFile(t, "hence.creds", stranger.user())
	w := teststreams.New(t, func(c *streams.Config) {
		c.NATS, c.NATSAuth, c.Health = ns.ClientURL(), streams.NATSAuth{Creds: file}, new(streams.Health)
	})
	w.Run(w.Cfg)
	w.Until("the stranger's refusal", func() bool {
		err := w.Cfg.Health.Ready()["nats"]
		return err != nil && strings.Contains(err.Error(), "uthorization")
	})
	if err := os.WriteFile(file, []byte(account.user()), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Well(w.Cfg.Health)

	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	w.Until("NATS delivers", func() bool {
		w.Decided(v, ann.Write("x", "1"))
		return v.By(streams.WayNATS) > 0
	})
}
