// Package harness starts what a test stands on: embedded or real servers, processors, sidecars, the built binary.
// Everything that it starts ends with the test.
package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
)

// The variables of the environment that choose what tests stand on.
const (
	EnvKafka   = "HENCE_TEST_KAFKA"   // addresses of Kafka, separated by commas
	EnvNATS    = "HENCE_TEST_NATS"    // URL of NATS
	EnvServers = "HENCE_TEST_SERVERS" // folder with the scripts "kafka" and "nats"
	EnvData    = "HENCE_TEST_DATA"    // folder of a data set in the tau-retail layout
)

// Bounds of what servers may take.
const (
	scriptBound = 3 * time.Minute // the first start may fetch the servers
	topicsBound = time.Minute
)

// Servers are one Kafka and one NATS.
type Servers struct {
	Brokers []string
	NATS    string
	Kind    string // "embedded", "real" or "containers", for figures
	control control
}

// control kills servers and brings them up again, on the same ports and data.
type control interface {
	KillKafka() error
	UpKafka() error
	KillNATS() error
	UpNATS() error
}

// named says whether the environment names real servers.
func named() bool { return os.Getenv(EnvKafka) != "" && os.Getenv(EnvNATS) != "" }

// Real says whether tests stand on real servers: those that the environment names, or containers.
func Real() bool { return named() || Containers() }

// Start returns the servers that the environment names, or the containers of this package's tests, or embedded ones of
// this test. Their topics are there.
func Start(tb testing.TB) *Servers {
	tb.Helper()
	if Containers() && !named() { // the first test that asks starts them: most packages of a run of few tests have none
		if _, err := shared(); err != nil {
			tb.Fatal(err)
		}
	}
	s := &Servers{Kind: "real"}
	switch {
	case named():
		s.Brokers, s.NATS = strings.Split(os.Getenv(EnvKafka), ","), os.Getenv(EnvNATS)
		if Containers() {
			s.Kind = "containers"
		}
	default:
		s = startEmbedded(tb, embedded.Options{})
	}
	s.ready(tb)
	return s
}

// StartOwn returns servers that this test may kill, with their topics: those of StartEmpty.
func StartOwn(tb testing.TB) *Servers {
	tb.Helper()
	s := StartEmpty(tb)
	s.ready(tb)
	return s
}

// StartEmpty returns servers of the test's own without topics: containers when the suite runs on those, real ones
// started by the scripts of HENCE_TEST_SERVERS when it runs on real ones, else embedded ones that keep their data. It
// skips when the suite is real and has no scripts.
func StartEmpty(tb testing.TB) *Servers {
	tb.Helper()
	switch scripts := os.Getenv(EnvServers); {
	case Containers():
		return OpenFleet(tb, 1, 1).Servers
	case !Real():
		return startEmbedded(tb, embedded.Options{DataDir: tb.TempDir()})
	case scripts == "":
		tb.Skipf("servers that may be killed are missing: set %s to a folder with scripts kafka and nats", EnvServers)
		return nil
	default:
		return startScripts(tb, scripts)
	}
}

// ready creates the topics and says what the test stands on.
func (s *Servers) ready(tb testing.TB) {
	tb.Helper()
	tb.Logf("servers: %s, kafka %s, nats %s", s.Kind, strings.Join(s.Brokers, ","), s.NATS)
	ctx, cancel := context.WithTimeout(tb.Context(), topicsBound)
	defer cancel()
	if err := streams.EnsureTopics(ctx, streams.Config{Brokers: s.Brokers, NATS: s.NATS}); err != nil {
		tb.Fatal(err)
	}
}

// KillKafka stops the broker without a farewell; only servers from StartOwn can be killed.
func (s *Servers) KillKafka(tb testing.TB) { s.do(tb, "kill kafka", s.control.KillKafka) }

// UpKafka starts the killed broker again.
func (s *Servers) UpKafka(tb testing.TB) { s.do(tb, "bring kafka up", s.control.UpKafka) }

// KillNATS stops the NATS server without a farewell.
func (s *Servers) KillNATS(tb testing.TB) { s.do(tb, "kill nats", s.control.KillNATS) }

// UpNATS starts the killed NATS server again.
func (s *Servers) UpNATS(tb testing.TB) { s.do(tb, "bring nats up", s.control.UpNATS) }

func (s *Servers) do(tb testing.TB, what string, act func() error) {
	tb.Helper()
	if err := act(); err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

// inProcess are embedded servers with their data on disk, or none.
type inProcess struct {
	options embedded.Options
	*embedded.Servers
}

func startEmbedded(tb testing.TB, o embedded.Options) *Servers {
	tb.Helper()
	servers, err := embedded.Start(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	p := &inProcess{options: o, Servers: servers}
	tb.Cleanup(func() {
		if err := p.Servers.Close(); err != nil {
			tb.Errorf("close the embedded servers: %v", err)
		}
	})
	s := &Servers{Brokers: servers.Brokers, NATS: servers.NATS, Kind: "embedded"}
	s.control = p
	return s
}

// KillKafka closes the in-process broker: every connection breaks at once.
func (p *inProcess) KillKafka() error {
	if p.options.DataDir == "" {
		return errors.New("these servers keep no data: use StartOwn")
	}
	_, port, err := net.SplitHostPort(p.Brokers[0])
	if err != nil {
		return err
	}
	if p.options.KafkaPort, err = strconv.Atoi(port); err != nil {
		return err
	}
	where, err := url.Parse(p.NATS)
	if err != nil {
		return err
	}
	if p.options.NATSPort, err = strconv.Atoi(where.Port()); err != nil {
		return err
	}
	p.Kafka().Close()
	return nil
}

// UpKafka starts both again: the embedded servers live and die together here.
func (p *inProcess) UpKafka() error {
	p.StopNATS()
	servers, err := embedded.Start(context.Background(), p.options)
	if err != nil {
		return err
	}
	p.Servers = servers
	return nil
}

// KillNATS shuts the in-process server down.
func (p *inProcess) KillNATS() error {
	p.StopNATS()
	return nil
}

// UpNATS starts it again.
func (p *inProcess) UpNATS() error { return p.StartNATS() }

// scripted are servers that scripts keep.
type scripted struct{ kafka, nats, kafkaDir, natsDir string }

func startScripts(tb testing.TB, folder string) *Servers {
	tb.Helper()
	dir := tb.TempDir()
	c := &scripted{
		kafka: filepath.Join(folder, "kafka"), nats: filepath.Join(folder, "nats"),
		kafkaDir: filepath.Join(dir, "kafka"), natsDir: filepath.Join(dir, "nats"),
	}
	tb.Cleanup(func() {
		if err := c.both("stop"); err != nil {
			tb.Errorf("stop the servers: %v", err)
		}
	})
	if err := c.both("start"); err != nil {
		tb.Fatalf("start servers with the scripts of %s: %v", EnvServers, err)
	}
	return &Servers{Kind: "real", control: c,
		Brokers: strings.Split(address(tb, c.kafkaDir), ","), NATS: address(tb, c.natsDir)}
}

func (c *scripted) both(verb string) error {
	return errors.Join(Script(c.kafka, verb, "--dir", c.kafkaDir), Script(c.nats, verb, "--dir", c.natsDir))
}

func address(tb testing.TB, dir string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "addr"))
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// A broker of a test lives for seconds or minutes: in that time Java's optimizing compiler takes more from the cores
// than it gives back.
const (
	envJava = "JDK_JAVA_OPTIONS"
	briefly = "-XX:TieredStopAtLevel=1"
)

// Script runs one of the scripts of HENCE_TEST_SERVERS, and says in its error what that printed.
func Script(program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), scriptBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second // a server that it started may hold its output open
	if os.Getenv(envJava) == "" {
		cmd.Env = append(os.Environ(), envJava+"="+briefly)
	}
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// KillKafka kills the broker's process.
func (c *scripted) KillKafka() error { return Script(c.kafka, "kill", "--dir", c.kafkaDir) }

// UpKafka starts it again and waits until it answers.
func (c *scripted) UpKafka() error { return Script(c.kafka, "up", "--dir", c.kafkaDir) }

// KillNATS kills the server's process.
func (c *scripted) KillNATS() error { return Script(c.nats, "kill", "--dir", c.natsDir) }

// UpNATS starts it again and waits until it answers.
func (c *scripted) UpNATS() error { return Script(c.nats, "up", "--dir", c.natsDir) }
