package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/cmd/hence/internal/doctor"
	"github.com/hence-dev/hence/topology"
)

// diagnose runs "hence doctor -o json" and returns its diagnosis.
func diagnose(t *testing.T, args ...string) (int, doctor.Diagnosis) {
	t.Helper()
	code, out, errs := hence(t, append([]string{"doctor", "-o", "json"}, args...)...)
	var d doctor.Diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("doctor %v: exit code %d, %v: %s%s", args, code, err, out, errs)
	}
	return code, d
}

// holds fails unless a diagnosis has a finding of a part and a level that says something, with its fix, or with what
// follows from it.
func holds(t *testing.T, d doctor.Diagnosis, part, level, says, more string) {
	t.Helper()
	if !slices.ContainsFunc(d.Findings, func(f doctor.Finding) bool {
		return f.Part == part && f.Level == level && strings.Contains(f.Says, says) &&
			strings.Contains(f.Fix+"\n"+strings.Join(f.Causes, "\n"), more)
	}) {
		t.Errorf("no %s of %s says %q, with %q, in:\n%+v", level, part, says, more, d.Findings)
	}
}

// TestDoctorHealthy starts everything and finds no problem.
func TestDoctorHealthy(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dev := startDev(t)
	args := []string{"--brokers", strings.Join(dev.Brokers, ","), "--nats", dev.NATS,
		"--sidecar", dev.URL, "--token", dev.Token,
		"--listen", strings.TrimPrefix(dev.URL, "http://"), "--listen", "127.0.0.1:0"}
	code, d := diagnose(t, args...)
	for deadline := time.Now().Add(20 * time.Second); code != ExitOK && time.Now().Before(deadline); {
		code, d = diagnose(t, args...) // processors may still be joining their groups
	}
	if code != ExitOK || !d.OK || d.Problems != 0 {
		t.Errorf("exit code %d, %+v", code, d)
	}
	for part, says := range map[string]string{
		"brokers": "1 broker", "topics": "8 partitions", "groups": "hence-sequencer is Stable with 1 member",
		"decisions": "no gap", "nats": "the stream has", "sidecar": "is ready: agent agent-1", "token": "accepts the token",
		"ports": "is taken by a process of Hence", "clock": "agrees with ours", "caches": "no cache",
		"rules": "the newest logic",
	} {
		holds(t, d, part, "ok", says, "")
	}
	if _, d := diagnose(t, append(args, "--token", "another-token-than-that")...); true {
		holds(t, d, "token", "problem", "rejects the token", "--token-file")
	}
	text := func() string { _, out, _ := hence(t, append([]string{"doctor"}, args...)...); return out }()
	if !strings.HasSuffix(text, "No problem was found.\n") || !strings.Contains(text, "ok       brokers") {
		t.Errorf("it prints:\n%s", text)
	}
}

// One topic that is missing is one problem with one fix, and what follows from it stands below it: before, doctor
// printed ten, eight of them with a fix that fixes nothing.
func TestDoctorOneCause(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	dev := startDev(t)
	kafka, err := kgo.NewClient(kgo.SeedBrokers(dev.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	if _, err := kadm.NewClient(kafka).DeleteTopics(t.Context(), topology.TopicDecisions); err != nil {
		t.Fatal(err)
	}
	code, d := diagnose(t) // it finds the hence dev that runs, with its sidecar
	if code != ExitCheck || d.Problems != 1 {
		t.Errorf("exit code %d, %d problems: %+v", code, d.Problems, d.Findings)
	}
	holds(t, d, "topics", "problem", "hence.decisions: it does not exist", "hence topics create")
	holds(t, d, "topics", "problem", "hence.decisions: it does not exist", "decisions: 8 partitions of it cannot be read")
	holds(t, d, "topics", "problem", "hence.decisions: it does not exist", "sidecar: "+dev.URL+" is not ready: topics")
	_, out, _ := hence(t, "doctor")
	if lines := strings.Count(out, "problem  ") + strings.Count(out, "fix: "); lines != 2 ||
		!strings.HasSuffix(out, "1 problem.\n") {
		t.Errorf("it prints:\n%s", out)
	}
	if _, err := kadm.NewClient(kafka).DeleteTopics(t.Context(), topology.TopicResidue); err != nil {
		t.Fatal(err)
	}
	if _, d := diagnose(t); d.Problems != 1 {
		t.Errorf("of two topics: %+v", d.Findings)
	} else {
		holds(t, d, "topics", "problem", "hence.residue: they do not exist", "hence topics create")
	}
}

// TestDoctorBadFlags holds that flags which mean nothing are said before anything is asked.
func TestDoctorBadFlags(t *testing.T) {
	for line, want := range map[string]string{
		"--sidecar localhost:7420": "http://host:port", "--listen 7420": "host:port", "--timeout 0s": "more than 0",
		"--workspace Not.Good": "--workspace", "--replication 0": "--replication", "--partitions 6": "power of two",
	} {
		code, out, errs := hence(t, append([]string{"doctor"}, strings.Fields(line)...)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("doctor %s: exit code %d, %q, %q; want %q", line, code, out, errs, want)
		}
	}
}
