package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/processor"
)

// readiness asks a sidecar how it is.
func readiness(t *testing.T, url string) (status int, out api.Ready, err error) {
	t.Helper()
	resp, err := http.Get(url + "/readyz")
	if err != nil {
		return 0, out, err
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	return resp.StatusCode, out, err
}

// eventually waits until a condition holds; said is what it last found.
func eventually(t *testing.T, what string, holds func() (ok bool, said any)) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(40 * time.Second); ; <-tick.C {
		ok, said := holds()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not come about: %+v", what, said)
		}
	}
}

// serversOn runs Kafka, NATS and processors until end is called.
func serversOn(ctx context.Context, t *testing.T, kafka, nats int) (end func()) {
	t.Helper()
	servers, err := embedded.Start(ctx, embedded.Options{KafkaPort: kafka, NATSPort: nats})
	if err != nil {
		t.Fatal(err)
	}
	cfg := streams.Config{Brokers: servers.Brokers, NATS: servers.NATS}
	if err := streams.EnsureTopics(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	processing, halt := context.WithCancel(ctx)
	processed := make(chan error, 1)
	go func() { processed <- processor.Run(processing, cfg) }()
	return func() {
		halt()
		<-processed
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSidecarWaitsForServers: a sidecar that is started before Kafka and NATS are there answers, says what is wrong,
// becomes ready once they come, says so again when they go, and ends only when it is told to.
func TestSidecarWaitsForServers(t *testing.T) {
	ports := freePorts(t, 3)
	url := fmt.Sprintf("http://127.0.0.1:%d", ports[2])
	const token = "a-token-for-the-waiting-test"
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var errs strings.Builder
	go func() {
		ended <- Main(ctx, []string{"sidecar", "--brokers", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--nats",
			fmt.Sprintf("nats://127.0.0.1:%d", ports[1]), "--listen", strings.TrimPrefix(url, "http://"), "--data-dir",
			t.TempDir(), "--token", token}, Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs})
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != ExitOK {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
	})
	alive := func() {
		select {
		case code := <-ended:
			ended <- code
			t.Fatalf("the sidecar ended with exit code %d: %s", code, errs.String())
		default:
		}
	}
	var last api.Ready
	eventually(t, "an answer without servers", func() (bool, any) {
		status, got, err := readiness(t, url)
		alive()
		last = got
		return err == nil && status == http.StatusServiceUnavailable, err
	})
	for _, part := range []string{"kafka", "nats", "view", "session"} {
		if p := last.Parts[part]; p.OK || p.Problem == "" {
			t.Errorf("%s is said to be well: %+v", part, last)
		}
	}
	if p := last.Parts["journal"]; p.OK || !strings.Contains(p.Problem, "the log has said its id") {
		t.Errorf("the journal is open, of an unknown log: %+v", last)
	}
	t.Logf("without servers: %+v", last.Parts)

	end := serversOn(ctx, t, ports[0], ports[1])
	eventually(t, "readiness", func() (bool, any) {
		status, got, _ := readiness(t, url)
		alive()
		return status == http.StatusOK, got
	})
	c := client.New(url, token)
	defer c.Close()
	if d, err := c.Put(ctx, "shard:/x", []byte("1"), client.WriteOptions{}); err != nil || d.State != "committed" {
		t.Fatalf("%+v %v", d, err)
	}
	end()
	eventually(t, "word of the servers' end", func() (bool, any) {
		status, got, _ := readiness(t, url)
		alive()
		return status == http.StatusServiceUnavailable && !got.Parts["kafka"].OK && !got.Parts["nats"].OK, got
	})
}
