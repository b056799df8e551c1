package spelling

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"command", "env", "restart", "restarts", "BROKERS", "workspace", "work", "env"}
	for name, want := range map[string]string{
		"comand": "command", "commands": "command", "comamnd": "command", "retsart": "restart", "enb": "env",
		"BROKRES": "BROKERS", "brokers": "BROKERS", "comm": "command", "restar": "restart", "port": "", "": "", "x": "",
		"wor": "work", "restartx": "", "workspcae": "workspace", "something": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
	if d := Distance("kitten", "sitting"); d != 3 {
		t.Errorf("the distance is %d", d)
	}
}

func TestNear(t *testing.T) {
	known := []string{"note.write", "note.read", "board.post", "note.writes"}
	for name, want := range map[string][]string{
		"note.wirte": {"note.write", "note.writes"}, "note.writes": {"note.writes", "note.write"}, "board": nil, "": nil,
	} {
		if got := Near(name, known, 2); !slices.Equal(got, want) {
			t.Errorf("near %q are %q, want %q", name, got, want)
		}
	}
}
