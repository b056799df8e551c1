package cli

import (
	"log/slog"

	"github.com/hence-dev/hence/streams"
)

// servers are the addresses of Kafka and NATS; the defaults are where "hence dev" listens.
type servers struct {
	Brokers []string `placeholder:"HOST:PORT" default:"127.0.0.1:9092" dev:"brokers" help:"Kafka brokers, with commas."`
	NATS    string   `name:"nats" placeholder:"URL" default:"nats://127.0.0.1:4222" dev:"nats" help:"NATS servers."`

	Partitions int32 `default:"8" help:"Partitions of each topic: a power of two, the same for everybody."`
	kafkaSecurity
	natsSecurity
}

// kafkaSecurity is how connections to Kafka are protected; secrets come from files only.
type kafkaSecurity struct {
	KafkaTLS          bool   `name:"kafka-tls" help:"Speak TLS to Kafka."`
	KafkaCA           string `name:"kafka-ca" placeholder:"FILE" help:"Who may sign the brokers' certificates."`
	KafkaCert         string `placeholder:"FILE" help:"Our own certificate for Kafka, with --kafka-key."`
	KafkaKey          string `placeholder:"FILE" help:"Its key."`
	KafkaServerName   string `placeholder:"NAME" help:"Name in the brokers' certificates, where not the dialled one."`
	KafkaSasl         string `enum:",plain,scram-sha-256,scram-sha-512" default:"" help:"How to log in: one of ${enum}."`
	KafkaUser         string `placeholder:"NAME" help:"Who logs in to Kafka."`
	KafkaPasswordFile string `placeholder:"FILE" help:"File with the password."`
}

// natsSecurity is the same for NATS.
type natsSecurity struct {
	NATSCA           string `name:"nats-ca" placeholder:"FILE" help:"Who may sign the NATS servers' certificates."`
	NATSCert         string `name:"nats-cert" placeholder:"FILE" help:"Our own certificate for NATS, with --nats-key."`
	NATSKey          string `name:"nats-key" placeholder:"FILE" help:"Its key."`
	NATSCreds        string `name:"nats-creds" placeholder:"FILE" help:"A user's credentials file, as nsc writes it."`
	NATSUser         string `name:"nats-user" placeholder:"NAME" help:"Who logs in to NATS."`
	NATSPasswordFile string `name:"nats-password-file" placeholder:"FILE" help:"File with the password."`
	NATSTokenFile    string `name:"nats-token-file" placeholder:"FILE" help:"File with a token, instead of a user."`
}

// topicShape is how topics are created; what exists already keeps its shape.
type topicShape struct {
	Replication int `default:"1" help:"Copies of each partition when topics are created; 3 on a real cluster."`
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
	return c
}
