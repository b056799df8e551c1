package embedded

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/net/nettest"
)

func TestPipe(t *testing.T) {
	nettest.TestConn(t, func() (a, b net.Conn, stop func(), err error) {
		a, b = newPipe()
		return a, b, func() { _, _ = a.Close(), b.Close() }, nil
	})
}

// What was written before an end is read, whatever its size; then both sides see what a network would show them.
func TestPipeEnds(t *testing.T) {
	a, b := newPipe()
	sent := bytes.Repeat([]byte("0123456789"), pipeBytes/4) // more than fits
	ended := make(chan error, 1)
	go func() {
		_, err := a.Write(sent)
		ended <- errors.Join(err, a.Close())
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(sent), err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read of a closed end: %v", err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) || !kgo.IsRetryableBrokerErr(err) {
		t.Errorf("write to a closed end: %v", err)
	}
}

// Writers wait for a slow reader, and do not mix what they write.
func TestPipeWriters(t *testing.T) {
	a, b := newPipe()
	const size, each, writers = 1000, 200, 4 // 12 times what fits
	for i := range writers {
		go func() {
			for range each {
				_, _ = a.Write(bytes.Repeat([]byte{byte(i)}, size))
			}
		}()
	}
	block := make([]byte, size)
	for n := range each * writers {
		if _, err := io.ReadFull(b, block); err != nil {
			t.Fatal(err)
		}
		if whole := bytes.Repeat(block[:1], size); !bytes.Equal(block, whole) {
			t.Fatalf("block %d is of several writers", n)
		}
	}
	_, _ = a.Close(), b.Close()
}
