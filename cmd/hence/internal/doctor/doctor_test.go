package doctor

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// holds fails unless a diagnosis has a finding of a part and a level that says something, with its fix.
func (d Diagnosis) holds(t *testing.T, part, level, says, fix string) {
	t.Helper()
	for _, f := range d.Findings {
		if f.Part == part && f.Level == level && strings.Contains(f.Says, says) && strings.Contains(f.Fix, fix) {
			return
		}
	}
	t.Errorf("no %s of %s says %q, to be fixed by %q, in:\n%+v", level, part, says, fix, d.Findings)
}

// follows fails unless a problem has something below it, with no fix of its own.
func (d Diagnosis) follows(t *testing.T, problem, caused string) {
	t.Helper()
	for _, f := range d.Findings {
		if strings.Contains(f.Says, problem) && strings.Contains(strings.Join(f.Causes, "\n"), caused) {
			return
		}
	}
	t.Errorf("from %q does not follow %q, in:\n%+v", problem, caused, d.Findings)
}

// local runs only the looks at this machine, whatever the cluster is.
func local(c Patient) Diagnosis {
	found := &checkup{}
	c.Workspace, c.Agent = "default", "agent-1"
	if dir := c.lookAtFiles(found); dir != "" {
		c.lookAtJournals(found, dir, "this")
	}
	return Diagnosis{Findings: found.all, Problems: found.problems}
}

// TestDoctorFiles seeds what can be wrong with files, and sees each.
func TestDoctorFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return path
	}
	folder := func(name string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fine := folder("fine", 0o700)
	open, empty := file("open", "0123456789abcdef\n", 0o644), file("empty", "", 0o600)
	local(Patient{DataDir: fine, TokenFile: open}).holds(t, "token", levelProblem, "can be read by others", "chmod 600")
	local(Patient{DataDir: fine, TokenFile: empty}).holds(t, "token", levelProblem, "is empty", "rm ")
	far, next := filepath.Join(dir, "no", "such"), filepath.Join(dir, "new")
	local(Patient{DataDir: fine, TokenFile: far}).holds(t, "token", levelProblem, "cannot be made", "mkdir -p")
	local(Patient{DataDir: fine, TokenFile: next}).holds(t, "token", levelNote, "is made at the first start", "")
	kept := file("kept", "0123456789abcdef\n", 0o600)
	local(Patient{DataDir: fine, TokenFile: kept}).holds(t, "token", levelOK, "its owner only", "")

	local(Patient{DataDir: fine}).holds(t, "journal", levelNote, "holds no journal of agent-1", "")
	local(Patient{DataDir: dir + "/new/folder"}).holds(t, "journal", levelNote, "is made at the first start", "")
	local(Patient{DataDir: kept}).holds(t, "journal", levelProblem, "is not a folder", "--data-dir")
	local(Patient{DataDir: kept + "/below"}).holds(t, "journal", levelProblem, "not a directory", "chown")
	local(Patient{DataDir: folder("wide", 0o777)}).holds(t, "journal", levelProblem, "changed by others", "chmod 700")
	damaged := folder("damaged", 0o700)
	file("damaged/journal-default-agent-1", "this is no journal", 0o600)
	local(Patient{DataDir: damaged}).holds(t, "journal", levelProblem, "does not begin as a journal does", "mv ")
	whole := folder("whole", 0o700)
	file("whole/journal-default-agent-1", "HENCEJ1\n", 0o600)
	local(Patient{DataDir: whole}).holds(t, "journal", levelOK, "names no log", "")
	file("whole/journal-default-agent-1.other-log-2", "HENCEJ1\n", 0o600)
	local(Patient{DataDir: whole}).holds(t, "journal", levelNote, "was moved aside (other-log)", "")
	for _, log := range []string{"this", "another"} {
		sub := filepath.Join("whole", "journals", log, "default", "agent-1")
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
		file(filepath.Join(sub, "journal"), "HENCEJ1\n"+journalFrame("H", fmt.Sprintf(`{"Log":%q}`, log)), 0o600)
	}
	local(Patient{DataDir: whole}).holds(t, "journal", levelOK, "of this log: the sidecar goes on with it", "")
	local(Patient{DataDir: whole}).holds(t, "journal", levelNote, "of log another and not of this one", "")
	if d := local(Patient{DataDir: fine}); d.Problems != 0 {
		t.Errorf("a folder that is as it must be has %+v", d)
	}
}

// journalFrame is one record of a journal.
func journalFrame(kind, body string) string {
	sum := func(s string) []byte {
		table := crc32.MakeTable(crc32.Castagnoli)
		return binary.LittleEndian.AppendUint32(nil, crc32.Checksum([]byte(s), table))
	}
	size := string(binary.LittleEndian.AppendUint32(nil, uint32(len(kind+body))))
	return size + string(sum(size)) + string(sum(kind+body)) + kind + body
}

// sidecarThat answers as a sidecar whose state and clock are given.
func sidecarThat(t *testing.T, ready string, ahead time.Duration) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		fmt.Fprint(w, ready)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestDoctorSidecar seeds what can be wrong with a sidecar, and sees each.
func TestDoctorSidecar(t *testing.T) {
	look := func(c Patient) Diagnosis {
		found := &checkup{}
		c.Agent, c.Cluster.Brokers, c.HTTP = "agent-1", []string{"k:9092"}, http.DefaultClient
		c.lookAtSidecar(t.Context(), found)
		return Diagnosis{Findings: found.all, Problems: found.problems}
	}
	const well = `{"ready":true,"agent":"a","workspace":"w","view":7,"parts":{"view":{"ok":true}}}`
	const ill = `{"ready":false,"agent":"a","workspace":"w","parts":{"kafka":{"ok":false,"problem":"no broker"},` +
		`"nats":{"ok":false,"problem":"away"},"topics":{"ok":false,"problem":"missing"},` +
		`"view":{"ok":false,"problem":"late"},"journal":{"ok":false,"problem":"disk full"}}}`
	at := func(ready string, ahead time.Duration) Diagnosis {
		return look(Patient{Sidecar: sidecarThat(t, ready, ahead)})
	}
	if d := at(well, 0); d.Problems != 0 {
		t.Errorf("a sidecar that is well has %+v", d)
	}
	none := look(Patient{Sidecar: "http://127.0.0.1:1"})
	none.holds(t, "sidecar", levelProblem, "does not answer", "hence sidecar --agent agent-1")
	at("hello", 0).holds(t, "sidecar", levelProblem, "is not a sidecar", "--sidecar")
	d := at(ill, 0)
	for _, want := range [][2]string{{"no broker", "--brokers"}, {"away", "--nats"}, {"missing", "hence topics verify"},
		{"late", "hence streams"}, {"disk full", "--data-dir"}} {
		d.holds(t, "sidecar", levelProblem, want[0], want[1])
	}
	at(well, 90*time.Second).holds(t, "clock", levelProblem, "ahead of ours by 1m", "set-ntp")
	at(well, -time.Minute).holds(t, "clock", levelProblem, "behind ours", "set-ntp")
	at(well, 4500*time.Millisecond).holds(t, "clock", levelNote, "ahead of ours", "")
}

// TestDoctorAddresses holds that an address that another program has is a problem.
func TestDoctorAddresses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	found := &checkup{}
	c := Patient{HTTP: http.DefaultClient,
		Listen: []string{other.Listener.Addr().String(), "127.0.0.1:0", "192.0.2.1:7420"}}
	c.lookAtAddresses(t.Context(), found)
	d := Diagnosis{Findings: found.all}
	d.holds(t, "ports", levelProblem, "is taken by another program", "ss -ltnp")
	d.holds(t, "ports", levelOK, "is free", "")
	d.holds(t, "ports", levelProblem, "192.0.2.1:7420", "an address of this machine")
}
