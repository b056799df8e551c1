package streams_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// realGuardedKafka starts a real broker whose only listener wants TLS, a certificate and a login.
func realGuardedKafka(t *testing.T, a *authority) (brokers []string) {
	t.Helper()
	scripts := os.Getenv("HENCE_TEST_SERVERS")
	if scripts == "" {
		t.Skip("a real Kafka is missing: set HENCE_TEST_SERVERS to a folder with a script kafka")
	}
	cert, key := a.issue("broker")
	var both []byte
	for _, file := range []string{key, cert} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, b...)
	}
	const jaas = "org.apache.kafka.common.security"
	dir := t.TempDir()
	args := []string{"start", "--dir", dir}
	for _, set := range []string{
		"listener.security.protocol.map=PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=PLAINTEXT", "sasl.mechanism.inter.broker.protocol=PLAIN",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		`listener.name.plaintext.plain.sasl.jaas.config=` + jaas + `.plain.PlainLoginModule required username="hence" ` +
			`password="open sesame" user_hence="open sesame";`,
		"listener.name.plaintext.scram-sha-256.sasl.jaas.config=" + jaas + ".scram.ScramLoginModule required;",
		"listener.name.plaintext.scram-sha-512.sasl.jaas.config=" + jaas + ".scram.ScramLoginModule required;",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + teststreams.SecretFile(t, "broker.both", string(both)),
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + a.file, "ssl.client.auth=required",
	} {
		args = append(args, "--set", set)
	}
	kafka := filepath.Join(scripts, "kafka")
	t.Cleanup(func() {
		if out, err := exec.Command(kafka, "kill", "--dir", dir).CombinedOutput(); err != nil {
			t.Errorf("stop Kafka: %v: %s", err, out)
		}
	})
	start := exec.CommandContext(t.Context(), kafka, args...)
	var errs bytes.Buffer
	start.Stderr = &errs
	out, err := start.Output()
	if err != nil {
		t.Fatalf("start Kafka: %v: %s", err, errs.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), ",")
}

// A real broker takes the logins that ours makes through franz-go and through sarama, and names a wrong one.
func TestRealGuardedKafka(t *testing.T) {
	w, a := guarded(t, "plain")
	w.Cfg.Brokers = realGuardedKafka(t, a)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.Cfg.Brokers...), kgo.DialTLSConfig(a.clientTLS()),
		kgo.SASL(plain.Auth{User: "hence", Pass: "open sesame"}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		made, err := kadm.NewClient(cl).AlterUserSCRAMs(w.Context(), nil,
			[]kadm.UpsertSCRAM{{User: "hence", Mechanism: m, Iterations: 4096, Password: "open sesame"}})
		if err == nil {
			err = made.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for n, method := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		cfg := w.Cfg
		cfg.Kafka.SASL, cfg.Health = method, new(streams.Health)
		began := time.Now()
		stop := w.Run(cfg)
		c := w.Dial(cfg)
		workspace := fmt.Sprint("w", n)
		v := w.Follow(c, workspace)
		ann := w.Join(c, v, workspace, "ann")
		w.Decided(v, ann.Write("x", "1"))
		w.Well(cfg.Health)
		stop()
		t.Logf("%s: a decision after %v", method, time.Since(began))
		wrong := cfg
		wrong.Kafka.PasswordFile = teststreams.SecretFile(t, "wrong", "guess")
		if err := w.Dial(wrong).Ready(w.Context())["kafka"]; err == nil ||
			!strings.Contains(err.Error(), "--kafka-password-file") || !strings.Contains(err.Error(), "SASL_AUTHENTICATION") {
			t.Errorf("%s with a wrong password: %v", method, err)
		}
	}
	plaintext := w.Cfg
	plaintext.Kafka = streams.Security{}
	if err := w.Dial(plaintext).Ready(w.Context())["kafka"]; err == nil || !strings.Contains(err.Error(), "--kafka-tls") {
		t.Errorf("plaintext: %v", err)
	}
}
