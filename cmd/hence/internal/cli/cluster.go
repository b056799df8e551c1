package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology/pause"
)

// servers are the addresses of Kafka and NATS; the defaults are where "hence dev" listens.
type servers struct {
	Brokers []string `placeholder:"HOST:PORT" default:"127.0.0.1:9092" dev:"brokers" help:"Kafka brokers, with commas."`
	NATS    string   `name:"nats" placeholder:"URL" default:"nats://127.0.0.1:4222" dev:"nats" help:"NATS server URLs."`

	Partitions int32 `default:"8" help:"Partitions of each topic: a power of two, the same everywhere."`
	kafkaSecurity
	natsSecurity
}

// kafkaSecurity is how connections to Kafka are protected; secrets come from files only.
type kafkaSecurity struct {
	KafkaTLS          bool   `name:"kafka-tls" help:"Use TLS for Kafka."`
	KafkaCA           string `name:"kafka-ca" placeholder:"FILE" help:"CA certificate file for the brokers."`
	KafkaCert         string `placeholder:"FILE" help:"Client certificate file; needs --kafka-key."`
	KafkaKey          string `placeholder:"FILE" help:"Key file of --kafka-cert."`
	KafkaServerName   string `placeholder:"NAME" help:"Name in the brokers' certificates, if not the address."`
	KafkaSasl         string `enum:",plain,scram-sha-256,scram-sha-512" default:"" help:"SASL mechanism: one of ${enum}."`
	KafkaUser         string `placeholder:"NAME" help:"Kafka user name."`
	KafkaPasswordFile string `placeholder:"FILE" help:"Password file of the Kafka user."`
}

// natsSecurity is the same for NATS.
type natsSecurity struct {
	NATSCA           string `name:"nats-ca" placeholder:"FILE" help:"CA certificate file for the NATS servers."`
	NATSCert         string `name:"nats-cert" placeholder:"FILE" help:"Client certificate file; needs --nats-key."`
	NATSKey          string `name:"nats-key" placeholder:"FILE" help:"Key file of --nats-cert."`
	NATSCreds        string `name:"nats-creds" placeholder:"FILE" help:"NATS credentials file, as nsc writes it."`
	NATSUser         string `name:"nats-user" placeholder:"NAME" help:"NATS user name."`
	NATSPasswordFile string `name:"nats-password-file" placeholder:"FILE" help:"Password file of the NATS user."`
	NATSTokenFile    string `name:"nats-token-file" placeholder:"FILE" help:"NATS token file, instead of a user."`
}

// watchful is whether processors in this process look for anomalies.
type watchful struct {
	Anomalies bool `help:"Look for anomalies among the last operations, where the processors are in this process."`
	lookback
}

// lookback is among how many operations anomalies are looked for.
type lookback struct {
	Window *int `name:"anomalies-window" placeholder:"N" help:"With --anomalies: how many operations, 1000 by default."`
}

// operations is that number, where anomalies are looked for; 0: they are not.
func (l lookback) operations(anomalies bool) int {
	switch {
	case !anomalies:
		return 0
	case l.Window == nil:
		return streams.DefaultAnomalies
	}
	return *l.Window
}

// needs refuses a number of operations that nothing would look at.
func (l lookback) needs(anomalies bool) error {
	if l.Window != nil && !anomalies {
		return errors.New("--anomalies-window says among how many operations anomalies are looked for, and without " +
			"--anomalies none are: add --anomalies, or leave it out")
	}
	return nil
}

func (w *watchful) prepare() error { return w.needs(w.Anomalies) }

// window is among how many operations; 0: none.
func (w *watchful) window() int { return w.operations(w.Anomalies) }

// topicShape is how topics are created; what exists already keeps its shape.
type topicShape struct {
	Replication int  `default:"1" help:"Replicas of each partition when topics are created; 3 on a real cluster."`
	Anomalies   bool `help:"With anomalies, which are looked for among the last operations."`
}

func (s servers) config(logger *slog.Logger) streams.Config {
	return streams.Config{Brokers: s.Brokers, NATS: s.NATS, Partitions: s.Partitions, Logger: logger,
		Kafka: streams.Security{TLS: s.KafkaTLS, CA: s.KafkaCA, Cert: s.KafkaCert, Key: s.KafkaKey,
			ServerName: s.KafkaServerName, SASL: s.KafkaSasl, User: s.KafkaUser, PasswordFile: s.KafkaPasswordFile},
		NATSAuth: streams.NATSAuth{CA: s.NATSCA, Cert: s.NATSCert, Key: s.NATSKey, Creds: s.NATSCreds,
			User: s.NATSUser, PasswordFile: s.NATSPasswordFile, TokenFile: s.NATSTokenFile},
	}
}

func (t topicShape) apply(c streams.Config) streams.Config {
	c.Replication = t.Replication
	if t.Anomalies {
		c.Anomalies = streams.DefaultAnomalies
	}
	return c
}

// goneAgainIn is the pause before a decision is looked for again that was gone.
const goneAgainIn = 5 * time.Second

// overLogs runs f until it ends by itself. When the log is lost meanwhile, with the brokers' disks, it says so and
// runs f again: nothing of the former log holds. The same where a decision is gone: a snapshot may lead past
// it by now, or the topic has been repaired.
func overLogs(ctx context.Context, cfg streams.Config, f func(context.Context) error) error {
	return overLogsIn(ctx, cfg, goneAgainIn, f)
}

func overLogsIn(ctx context.Context, cfg streams.Config, again time.Duration, f func(context.Context) error) error {
	for {
		inner, cancel := context.WithCancelCause(ctx)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			if err := streams.SameLog(inner, cfg); err != nil {
				cancel(err)
			}
		}()
		err := f(inner)
		why := context.Cause(inner)
		if why == nil && errors.Is(err, streams.ErrOtherLog) {
			why = err // the sidecar has seen it first
		}
		cancel(nil)
		<-watched
		if ctx.Err() == nil && why == nil && errors.Is(err, streams.ErrGone) {
			cfg.Logger.Error("a decision is no longer in the log: all parts restart", "error", err, "pause", again)
			if pause.Sleep(ctx, again) != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil || why == nil {
			return err
		}
		if !errors.Is(why, streams.ErrOtherLog) {
			return errors.Join(err, fmt.Errorf("watch the log: %w", why))
		}
		cfg.Logger.Error("the log is lost: all parts restart on an empty log", "error", why)
	}
}
