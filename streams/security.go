package streams

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Security is how connections to Kafka are protected. Files are read when a client is made, a password each time that
// a connection is. The zero value is plaintext without a login.
type Security struct {
	TLS        bool   // also when one of the next four is set
	CA         string // file (PEM) of who may sign the brokers' certificates; empty: the system's
	Cert, Key  string // files (PEM) of our own certificate, where brokers ask for one
	ServerName string // name in the brokers' certificates; empty: the name that was dialled

	SASL         string // plain, scram-sha-256 or scram-sha-512; empty: no login
	User         string
	PasswordFile string
}

// NATSAuth is how connections to NATS are protected. The zero value is what the URL says.
type NATSAuth struct {
	CA        string // file (PEM) of who may sign the servers' certificates; set: TLS is asked for
	Cert, Key string // files (PEM) of our own certificate

	Creds        string // file with a user's JWT and seed, as `nsc` writes it
	User         string
	PasswordFile string
	TokenFile    string
}

// The ways to log in to Kafka.
const (
	saslPlain  = "plain"
	saslSHA256 = "scram-sha-256"
	saslSHA512 = "scram-sha-512"
)

// checked says what is wrong with the settings, and makes the TLS configuration; nil: no TLS.
func (s Security) checked() (*tls.Config, error) {
	switch s.SASL {
	case "":
		if s.User != "" || s.PasswordFile != "" {
			return nil, errors.New("a Kafka user or password needs a SASL mechanism: give --kafka-sasl")
		}
	case saslPlain, saslSHA256, saslSHA512:
		if s.User == "" || s.PasswordFile == "" {
			return nil, fmt.Errorf("SASL mechanism %s needs --kafka-user and --kafka-password-file", s.SASL)
		}
		if _, err := secret(s.PasswordFile); err != nil {
			return nil, fmt.Errorf("--kafka-password-file: %w", err)
		}
	default:
		return nil, fmt.Errorf("unknown SASL mechanism %q: --kafka-sasl is %s, %s or %s", s.SASL, saslPlain,
			saslSHA256, saslSHA512)
	}
	if !s.TLS && s.CA == "" && s.Cert == "" && s.Key == "" && s.ServerName == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("--kafka-ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--kafka-ca: %s has no certificate in PEM form", s.CA)
		}
	}
	if (s.Cert == "") != (s.Key == "") {
		return nil, errors.New("--kafka-cert and --kafka-key belong together: give both")
	}
	if s.Cert != "" {
		pair, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, fmt.Errorf("--kafka-cert and --kafka-key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// secret is what a file holds, without the end of its last line.
func secret(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(b), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty: write the secret into it", file)
	}
	return text, nil
}

// mechanism is how a connection logs in; nil: it does not.
func (s Security) mechanism() sasl.Mechanism {
	password := func() (string, error) {
		p, err := secret(s.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("password of Kafka: %w", err)
		}
		return p, nil
	}
	scrams := func(context.Context) (scram.Auth, error) {
		p, err := password()
		return scram.Auth{User: s.User, Pass: p}, err
	}
	switch s.SASL {
	case saslPlain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			p, err := password()
			return plain.Auth{User: s.User, Pass: p}, err
		})
	case saslSHA256:
		return scram.Sha256(scrams)
	case saslSHA512:
		return scram.Sha512(scrams)
	}
	return nil
}

// secured are the options of a franz-go client.
func (c Config) secured() (opts []kgo.Opt) {
	if c.kafkaTLS != nil {
		opts = append(opts, kgo.DialTLSConfig(c.kafkaTLS.Clone()))
	}
	if c.Dial != nil {
		opts = append(opts, kgo.Dialer(c.Dial))
	}
	if m := c.Kafka.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

// options are those of a NATS connection. What is wrong with the settings is an error; a login that the server
// refuses is not: it is tried again, since a server's users may change.
func (a NATSAuth) options() (opts []nats.Option, err error) {
	if a.CA != "" {
		if _, err := os.Stat(a.CA); err != nil {
			return nil, fmt.Errorf("--nats-ca: %w", err)
		}
		opts = append(opts, nats.RootCAs(a.CA))
	}
	if (a.Cert == "") != (a.Key == "") {
		return nil, errors.New("--nats-cert and --nats-key belong together: give both")
	}
	if a.Cert != "" {
		if _, err := tls.LoadX509KeyPair(a.Cert, a.Key); err != nil {
			return nil, fmt.Errorf("--nats-cert and --nats-key: %w", err)
		}
		opts = append(opts, nats.ClientCert(a.Cert, a.Key))
	}
	if a.Creds != "" {
		if _, err := os.Stat(a.Creds); err != nil {
			return nil, fmt.Errorf("--nats-creds: %w", err)
		}
		opts = append(opts, nats.UserCredentials(a.Creds))
	}
	if (a.User == "") != (a.PasswordFile == "") {
		return nil, errors.New("--nats-user and --nats-password-file belong together: give both")
	}
	if a.User != "" {
		if _, err := secret(a.PasswordFile); err != nil {
			return nil, fmt.Errorf("--nats-password-file: %w", err)
		}
		opts = append(opts, nats.UserInfoHandler(func() (string, string) {
			p, _ := secret(a.PasswordFile) // an error shows as a refused login
			return a.User, p
		}))
	}
	if a.TokenFile != "" {
		if _, err := secret(a.TokenFile); err != nil {
			return nil, fmt.Errorf("--nats-token-file: %w", err)
		}
		opts = append(opts, nats.TokenHandler(func() string {
			t, _ := secret(a.TokenFile)
			return t
		}))
	}
	return opts, nil
}

// KafkaLogin is what a client that is not franz-go's needs to connect to Kafka as ours do: the TLS configuration (nil:
// no TLS), the login (nil: none) and its password. A password file that cannot be read shows as a refused login.
func (c Config) KafkaLogin() (*tls.Config, sasl.Mechanism, string) {
	m := c.Kafka.mechanism()
	if m == nil {
		return c.kafkaTLS.Clone(), nil, ""
	}
	password, _ := secret(c.Kafka.PasswordFile)
	return c.kafkaTLS.Clone(), m, password
}
