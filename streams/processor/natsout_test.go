package processor

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/meters"
)

// dialed is one connection, whoever is dialed.
type dialed struct{ net.Conn }

func (d dialed) Dial(string, string) (net.Conn, error) { return d.Conn, nil }

// deaf is a connection to a server of NATS that takes a client in and then reads nothing more.
func deaf(t *testing.T) (conn *nats.Conn, hangUp func()) {
	t.Helper()
	ours, its := net.Pipe()
	in := make(chan error, 1)
	go func() {
		_, err := fmt.Fprint(its, `INFO {"server_id":"deaf","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
		for r := bufio.NewReader(its); err == nil; {
			var line string
			if line, err = r.ReadString('\n'); strings.HasPrefix(line, "PING") {
				_, err = fmt.Fprint(its, "PONG\r\n")
				break
			}
		}
		in <- err
	}()
	conn, err := nats.Connect("nats://127.0.0.1:1", nats.SetCustomDialer(dialed{ours}), nats.NoReconnect(),
		nats.FlusherTimeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-in; err != nil {
		t.Fatal(err)
	}
	return conn, func() { _ = its.Close() }
}

// Decisions reach Kafka whatever NATS does: a server that does not read holds nothing up, and what is kept for it is
// bounded.
func TestPublishPastADeafServer(t *testing.T) {
	conn, hangUp := deaf(t)
	n := newNATSOut(conn, meters.New(prometheus.NewRegistry()), "log")
	end, sent, published := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		n.send(end)
	}()
	go func() {
		defer close(published)
		data := make([]byte, 64<<10)
		for seq := range sequencer.Seq(2000) { // 125 MiB
			n.publish(&message{outcome: &sequencer.Outcome{Workspace: "w", Seq: seq + 1}, nats: data})
		}
	}()
	select {
	case <-published:
	case <-time.After(20 * time.Second):
		t.Error("a decision waits for a server that does not read")
	}
	if kept := n.queued.Load(); kept > natsQueueBytes {
		t.Errorf("%d bytes are kept", kept)
	}
	hangUp()
	close(end)
	<-sent
	conn.Close()
	if kept := n.queued.Load(); kept != 0 {
		t.Errorf("%d bytes are left", kept)
	}
}
