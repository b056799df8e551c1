package journal

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
)

// Journals of different logs, workspaces and agents never lie at one path.
func TestJournalNames(t *testing.T) {
	all := map[string]Of{}
	for _, of := range []Of{{Log: "l", Workspace: "shop", Agent: "eu-bot"}, {Log: "l", Workspace: "shop-eu",
		Agent: "bot"}, {Log: "l", Workspace: "bot", Agent: "shop-eu"},
		{Log: "k", Workspace: "shop", Agent: "eu-bot"}, {Log: "l/shop", Workspace: "eu", Agent: "bot"}, {Log: "l",
			Workspace: "shop", Agent: "bot"}, {Log: "a%2Fb", Workspace: "w", Agent: "a"}, {Log: "a/b", Workspace: "w",
			Agent: "a"}} {
		path := of.Path("d")
		if former, ok := all[path]; ok {
			t.Errorf("%v and %v have %s", of, former, path)
		}
		if all[path] = of; strings.Count(path, "/") != 5 {
			t.Errorf("%v lies at %s", of, path)
		}
	}
}

// A journal of two logs, as older releases have written it, is not taken for one of one log.
func TestJournalOfTwoLogs(t *testing.T) {
	for name, twice := range map[string]func(*testing.T, *Ledger){
		"both sessions are the first": func(t *testing.T, l *Ledger) {
			for range 2 {
				told(t, l, RecordJoined, JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 1})
			}
		},
		"a name is used twice": func(t *testing.T, l *Ledger) {
			for _, count := range []int{600, 1100} {
				for n := range count {
					id := api.TxName("a", 1, uint64(n+1))
					told(t, l, RecordBegun, &TxRecord{Tx: id, Incarnation: 1, Base: 1})
					told(t, l, RecordDecided, &DecidedRecord{Tx: id, State: "committed", Final: n%2 == 0, Seq: 2})
				}
			}
		},
		"two agents": func(t *testing.T, l *Ledger) {
			told(t, l, RecordJoined, JoinedRecord{Agent: "b", Workspace: "default", Incarnation: 1})
			told(t, l, RecordJoined, JoinedRecord{Agent: "a", Workspace: "default", Incarnation: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			if twice(t, l); l.Mixed == nil {
				t.Error("it is taken for one of one log")
			}
		})
	}
}
