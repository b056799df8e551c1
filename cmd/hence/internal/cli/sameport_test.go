package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// A sidecar that was given a free port keeps it when it starts again: its agents know no other.
func TestSidecarKeepsItsPort(t *testing.T) {
	ports, lines := freePorts(t, 2), make(said, 8)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"sidecar", "--brokers", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--nats",
			fmt.Sprintf("nats://127.0.0.1:%d", ports[1]), "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--token",
			"a-token-for-the-port-test"}, Streams{In: strings.NewReader(""), Out: lines, Err: io.Discard})
	}()
	defer func() {
		stop()
		<-ended
	}()
	ready := func() string {
		select {
		case line := <-lines:
			return line
		case code := <-ended:
			ended <- code
			t.Fatalf("the sidecar ended with exit code %d", code)
		case <-time.After(time.Minute):
			t.Fatal("the sidecar is not ready")
		}
		return ""
	}
	end := serversOn(ctx, t, ports[0], ports[1])
	first := ready()
	end() // with all that they had
	end = serversOn(ctx, t, ports[0], ports[1])
	defer end()
	if second := ready(); second != first {
		t.Errorf("first %s, then %s", first, second)
	}
}
