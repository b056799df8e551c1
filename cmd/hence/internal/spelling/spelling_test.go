package spelling

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"command", "env", "restart", "restarts", "BROKERS", "workspace", "work"}
	for name, want := range map[string]string{
		"comand": "command", "commands": "command", "comamnd": "command", "retsart": "restart", "enb": "env",
		"BROKRES": "BROKERS", "brokers": "BROKERS", "comm": "command", "restar": "restart", "port": "", "": "", "x": "",
		"wor": "work", "restartx": "", "workspcae": "workspace", "something": "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
	if d := distance("kitten", "sitting"); d != 3 {
		t.Errorf("the distance is %d", d)
	}
}
