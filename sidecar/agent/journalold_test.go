package agent

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/internal/memlog"
	"github.com/hence-dev/hence/sidecar/journal"
)

// asOlder makes the one journal in a folder one of a release that named no log, written at a time.
func asOlder(t *testing.T, dir string, written time.Time) string {
	t.Helper()
	found := journal.JournalsIn(dir, journal.Of{Workspace: "default", Agent: "a"})
	if len(found) != 1 {
		t.Fatalf("%d journals in %s", len(found), dir)
	}
	var records []journal.Entry
	file := must(os.Open(found[0].Path))(t)
	defer file.Close()
	_, _, err := journal.Scan(file, func(r []byte) error {
		switch r[0] {
		case journal.RecordOf, journal.RecordJoining, journal.RecordWaits, journal.RecordNotice:
		default:
			records = append(records, journal.Entry{Kind: r[0], Body: slices.Clone(r[1:])})
		}
		return nil
	})
	old := journal.Of{Workspace: "default", Agent: "a"}.OldPath(dir)
	j := must(journal.WriteWhole(old, journal.OpenOS, records))(t)
	if err := errors.Join(err, j.Close(), os.Remove(found[0].Path), os.Chtimes(old, written, written)); err != nil {
		t.Fatal(err)
	}
	return old
}

// The journal of a release that named no log is gone on with where the log shows that it is its own; its settlement is
// then a successor's. Else it is moved aside, once, and the agent is told to read again.
func TestOlderJournal(t *testing.T) {
	for name, c := range map[string]olderCase{
		"of this log": {},
		"of a log that is begun anew": {aside: "other-log", log: func(t *testing.T, _ *memlog.Log) *memlog.Log {
			log := newLog()
			must(start(t, "a", log.Door()).client.Put(background(t), "shard:/x", nil, client.WriteOptions{}))(t)
			return log
		}},
		"older than its session here": {aside: "other-log", change: func(t *testing.T, old string) {
			then := time.Now().Add(-time.Hour)
			must(0, os.Chtimes(old, then, then))(t)
		}},
		"another decision": {aside: "other-log", change: func(t *testing.T, old string) {
			rewriteOld(t, old, func(l *journal.Ledger) { l.Txs["a.1.1"].Decided.Seq-- })
		}},
		"no join there": {aside: "other-log", change: func(t *testing.T, old string) {
			rewriteOld(t, old, func(l *journal.Ledger) { l.Joined.Incarnation = 2 })
		}},
		"longer than the log": {aside: "other-log", change: func(t *testing.T, old string) {
			rewriteOld(t, old, func(l *journal.Ledger) { l.Txs["a.1.1"].Decided.Seq = 1000 })
		}},
		"damaged": {aside: "damaged", change: func(t *testing.T, old string) {
			content := must(os.ReadFile(old))(t)
			content[len(content)/2] ^= 1
			must(0, os.WriteFile(old, content, 0o600))(t)
		}},
		"another agent's": {kept: true, change: func(t *testing.T, old string) {
			rewriteOld(t, old, func(l *journal.Ledger) { l.Joined.Workspace, l.Joined.Agent = "default-a", "x" })
		}},
	} {
		t.Run(name, c.run)
	}
}

// olderCase is one older journal, of a transaction that its log has committed.
type olderCase struct {
	change func(t *testing.T, old string)
	log    func(t *testing.T, log *memlog.Log) *memlog.Log // that it is started on; nil: its own
	aside  string
	kept   bool // it stays where it is
}

func (c olderCase) run(t *testing.T) {
	ctx, world, log := background(t), newSink(), newLog()
	door := log.Door()
	a := start(t, "a", door, quick(world))
	done := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(done.Seal(ctx))(t)
	tx := must(a.client.Begin(ctx, client.BeginOptions{}))(t)
	must(tx.Effect(ctx, "unmail", at{At: "x"}, client.EffectOptions{}))(t)
	held(t, a, log, door, tx)
	a.die(t, door)
	dir := a.config.DataDir
	old := asOlder(t, dir, time.Now())
	if c.change != nil {
		c.change(t, old)
	}
	if c.log != nil {
		log = c.log(t, log)
	}
	b := start(t, "a", log.Door(), quick(world), inFolder(dir)).aloneNow()
	if c.log == nil {
		b.final(ctx, t, tx.ID())
	}
	if taken := c.aside == "" && !c.kept; taken {
		world.expect(t, "unmail x")
	} else {
		world.expect(t)
	}
	if c.aside != "" {
		_, err := b.client.Put(ctx, "shard:/y", []byte("y"), client.WriteOptions{})
		lost(t, err)
		must(os.Stat(old + "." + c.aside + "-1"))(t)
	}
	if _, err := os.Stat(old); (err == nil) != c.kept {
		t.Errorf("at the old place: %v", err)
	}
}

// rewriteOld changes what a journal that names no log comes to.
func rewriteOld(t *testing.T, path string, change func(*journal.Ledger)) {
	t.Helper()
	l := must(journal.ReadLedger(path))(t)
	change(l)
	j := must(journal.WriteWhole(path, journal.OpenOS, must(l.Records())(t)))(t)
	must(0, j.Close())(t)
}
