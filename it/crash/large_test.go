package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

const largeShard = "shard:/large"

// largeLab has sidecar processes that die while they write a large content, and one that reads them.
type largeLab struct {
	*harness.Deployment
	tb     testing.TB
	binary string
	dir    string
	agents int // processes with a journal of their own
	reader *client.Client
	was    []byte   // what was read last; nil: nothing
	maybe  [][]byte // writes of killed processes since: they may be sealed, and be decided late
	kept   int      // writes of killed processes that were sealed
	landed int      // kills
}

// largeKills are where the process dies in the upload of some parts: at each of them, and around the seal, which is
// the second intent of a process behind its join.
func largeKills(parts int) (out []crashAt) {
	for nth := 1; nth <= parts; nth++ {
		out = append(out, crashAt{failpoint.EventBefore, nth}, crashAt{failpoint.EventAfter, nth},
			crashAt{failpoint.JournalAfterWrite, nth})
	}
	return append(out, crashAt{failpoint.AppendBefore, 2}, crashAt{failpoint.AppendAfter, 2})
}

// TestLargeKilled kills a sidecar in the middle of uploads. A reader is given a content that was written, whole:
// the former one, or the new one where its seal was in the log. HENCE_LARGE_FULL=1 is 100 uploads of 16 MiB.
func TestLargeKilled(t *testing.T) {
	uploads, size := 5, 4*sequencer.ChunkBytes+1
	if os.Getenv("HENCE_LARGE_FULL") == "1" {
		uploads, size = 100, sequencer.MaxContent
	}
	l := &largeLab{Deployment: harness.Deploy(t, harness.Start(t)), tb: t, binary: harness.Binary(t, "failpoints"),
		dir: t.TempDir()}
	l.reader = l.Sidecar(t, "reader").Client
	most := uint32(sequencer.MaxContent)
	if _, err := l.reader.SetRules(t.Context(), 0, client.RulesChange{MaxContent: &most}); err != nil {
		t.Fatal(err)
	}
	kills := largeKills(int(sequencer.ChunksOf(int64(size))))
	for i := range uploads {
		l.upload(i, large(size, i), kills[len(kills)-1-i*len(kills)/uploads])
	}
	l.agents--
	l.upload(uploads, large(size, uploads), crashAt{failpoint.EventBefore, 1000}) // over what the last one left: it lives
	halves := l.halves()
	t.Logf("%d kills in %d uploads: %d contents were sealed all the same, %d chains are not whole", l.landed, uploads,
		l.kept, halves)
	if l.landed < uploads*2/3 || halves == 0 {
		t.Errorf("%d of %d processes were killed, and %d chains are not whole: too few to show anything", l.landed, uploads,
			halves)
	}
}

func large(size, seed int) []byte {
	out := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(out) // never fails
	return out
}

// upload writes a content with a process that dies, and reads the shard at the other one.
func (l *largeLab) upload(i int, content []byte, at crashAt) {
	l.tb.Helper()
	l.agents++ // what another one left would be finished first, and the process die there
	agent := fmt.Sprintf("large-%d", l.agents)
	cmd := exec.Command(l.binary, "sidecar", "--agent", agent, "--workspace", l.Workspace, "--listen", "127.0.0.1:0",
		"--brokers", strings.Join(l.Brokers, ","), "--nats", l.NATS, "--data-dir", filepath.Join(l.dir, agent), "--token",
		crashToken, "--output", "json")
	cmd.Env = append(cmd.Env, "HENCE_FAILPOINT="+at.String())
	p, line, err := harness.Launch(l.tb, crashServing, cmd)
	if err == nil {
		var ready struct {
			Address string `json:"address"`
		}
		if err := json.Unmarshal(line, &ready); err != nil {
			l.tb.Fatal(err)
		}
		var d client.Decision
		d, err = clientOf(l.tb, ready.Address, crashToken, l.Workspace).Put(l.tb.Context(), largeShard, content,
			client.WriteOptions{})
		if err == nil && d.State != "committed" {
			l.tb.Fatalf("upload %d: %+v", i, d)
		}
	} else if !errors.Is(err, harness.ErrEnded) { // it may die before it serves
		l.tb.Fatal(err)
	}
	if err == nil {
		_ = p.Kill()
		l.was = content
	} else {
		l.landed++
	}
	if _, code, ended := p.Wait(crashServing); ended != nil || code != -1 {
		l.tb.Fatalf("upload %d: the sidecar was to be killed at %s and ended with %d, %v, %v\n%s", i, at, code, ended, err,
			p.Words())
	}
	l.look(i, content, err == nil)
}

// look reads the shard: it has what it had, or what may have been sealed since.
func (l *largeLab) look(i int, content []byte, done bool) {
	l.tb.Helper()
	if done {
		l.maybe = nil // what came before it in the log cannot come after it in the view
	} else {
		defer func() { l.maybe = append(l.maybe, content) }()
	}
	harness.Eventually(l.tb, crashBound, func() error {
		got, err := l.reader.Look(l.tb.Context(), largeShard)
		switch {
		case err != nil:
			return err
		case got.Exists && bytes.Equal(got.Content, content):
			if !done {
				l.kept++
			}
			l.was = content
		case done: // the reader's view is on its way
			return fmt.Errorf("upload %d is not there: %d bytes", i, len(got.Content))
		case got.Exists && slices.ContainsFunc(l.maybe, func(one []byte) bool { return bytes.Equal(got.Content, one) }):
			l.was = got.Content // sealed before its sidecar died, and decided after the look that followed
		case got.Exists != (l.was != nil) || !bytes.Equal(got.Content, l.was):
			l.tb.Fatalf("upload %d: %d bytes that nobody has written", i, len(got.Content))
		}
		return nil
	})
}

// halves counts the chains in the events topic that have too few parts.
func (l *largeLab) halves() (n int) {
	l.tb.Helper()
	type chain struct {
		tx sequencer.TxID
		of sequencer.Hash
	}
	ends := map[chain]int64{}
	for _, ev := range harness.ReadEvents(l.tb, l.Brokers, l.Workspace) {
		if ev.Kind == topology.EventContent && ev.Chunk != nil {
			c := chain{ev.Tx, ev.Chunk.Of}
			ends[c] = max(ends[c], ev.Chunk.At+ev.Size)
		}
	}
	whole := int64(len(l.was))
	for _, end := range ends {
		if end < whole {
			n++
		}
	}
	return n
}
