package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
)

// readSeqs reads a stream's seqs until it ends or has one that is enough. What was cut off inside an event does not
// count.
func readSeqs(r io.Reader, enough uint64) (seqs []uint64, last string) {
	lines := bufio.NewReader(r)
	for id, data := "", ""; ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return seqs, last
		}
		switch {
		case strings.HasPrefix(line, "id: "):
			id = strings.TrimSpace(line[4:])
		case strings.HasPrefix(line, "data: "):
			data = line
		case line == "\n":
			if id != "" {
				last = id
			}
			if seq, err := strconv.ParseUint(id, 10, 64); err == nil && data != "" {
				if seqs = append(seqs, seq); seq >= enough {
					return seqs, last
				}
			}
			id, data = "", ""
		}
	}
}

// putUntil writes a shard again and again until the context ends, at most 1,000 times: on a busy machine the stream
// would else fall back ever further.
func putUntil(ctx context.Context, t *testing.T, dev Dev, scope string) {
	c := client.New(dev.URL, dev.Token)
	defer c.Close()
	for i := 0; i < 1000 && ctx.Err() == nil; i++ {
		if _, err := c.Put(ctx, scope, fmt.Append(nil, i), client.WriteOptions{}); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
	}
}

// TestWatchResumes: a stream of a whole deployment that is cut at 100 random places under load has every decision once
// and in order.
func TestWatchResumes(t *testing.T) {
	const cuts = 100 // package feed cuts its streams more often
	dev := startDev(t)
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	var load sync.WaitGroup
	for n := range 4 {
		load.Go(func() { putUntil(ctx, t, dev, fmt.Sprintf("shard:/load/%d", n)) })
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	watch := func(last string, read func(io.Reader)) {
		t.Helper()
		conn, leave := context.WithCancel(t.Context())
		defer leave()
		r, err := http.NewRequestWithContext(conn, http.MethodGet, dev.URL+"/v1/workspaces/default/decisions", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+dev.Token)
		r.Header.Set("Last-Event-ID", last)
		resp, err := transport.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		defer resp.Body.Close()
		read(resp.Body)
	}
	random := rand.New(rand.NewPCG(3, 4))
	var seen []uint64
	last := "0"
	for range cuts {
		watch(last, func(body io.Reader) {
			got, id := readSeqs(io.LimitReader(body, random.Int64N(8_000)), 1<<63)
			if seen = append(seen, got...); id != "" {
				last = id
			}
		})
	}
	enough()
	load.Wait()
	c := client.New(dev.URL, dev.Token)
	defer c.Close()
	end, err := c.Put(t.Context(), "shard:/end", []byte("1"), client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch(last, func(body io.Reader) {
		got, _ := readSeqs(body, end.Seq)
		seen = append(seen, got...)
	})
	for i, seq := range seen {
		if seq != uint64(i+1) {
			t.Fatalf("decision %d of the stream has the seq %d", i+1, seq)
		}
	}
	if uint64(len(seen)) < end.Seq {
		t.Errorf("%d decisions, the last seq is %d", len(seen), end.Seq)
	}
	t.Logf("%d cuts, %d decisions", cuts, len(seen))
}
