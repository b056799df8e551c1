package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/journal"
)

// Looking at journals takes no lock and changes nothing, also while they are written: a sidecar starts while its
// journal is looked at, and what is being written is never called damaged.
func TestLookAtJournals(t *testing.T) {
	log, dir, ctx := newLog(), t.TempDir(), background(t)
	looked := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(looked)
		for {
			looks, err := journal.LookAtJournals(dir, "default", "a")
			for _, l := range looks {
				if l.Damaged != nil || err != nil {
					t.Errorf("%+v, %v", l, err)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 3 {
		a := start(t, "a", log.Door(), inFolder(dir), func(c *setup) { c.Limits.JournalBytes = 1 << 12 })
		for range 30 {
			must(a.client.Put(ctx, "shard:/x", make([]byte, 2000), client.WriteOptions{}))(t)
		}
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-looked

	other := journal.Of{Log: "another", Workspace: "default", Agent: "a"}.Path(dir)
	if err := os.MkdirAll(filepath.Dir(other), 0o700); err != nil {
		t.Fatal(err)
	}
	torn := append([]byte(journal.Magic), journal.Frame(nil, journal.RecordOf, []byte(`{"Log":"another"}`))...)
	torn = append(torn, journal.Frame(nil, journal.RecordLoose, []byte("[]"))[:9]...)
	for path, content := range map[string][]byte{other: torn, other + ".damaged-1": torn[:20]} {
		then := time.Now().Add(-time.Hour)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		must(0, os.Chtimes(path, then, then))(t)
	}
	id := must(log.Door().ID(ctx))(t)
	looks := must(journal.LookAtJournals(dir, "default", "a"))(t)
	if len(looks) != 3 || looks[0].Log != id || looks[0].Damaged != nil || looks[0].Aside != "" {
		t.Fatalf("%+v", looks)
	}
	for _, l := range looks[1:] {
		if aside := l.Path != other; aside != (l.Aside == "damaged") || !aside && (l.Log != "another" || l.Damaged != nil) {
			t.Errorf("%+v", l)
		}
	}
	if _, err := os.Stat(other + ".lock"); err == nil {
		t.Error("a lock was taken")
	}
}
