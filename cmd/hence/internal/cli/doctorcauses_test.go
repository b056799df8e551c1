package cli

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
)

// One topic that is missing is one problem with one fix, and what follows from it stands below it: before, doctor
// printed ten, eight of them with a fix that mends nothing.
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
	code, d := doctor(t) // it finds the hence dev that runs, with its sidecar
	if code != ExitCheck || d.Problems != 1 {
		t.Errorf("exit code %d, %d problems: %+v", code, d.Problems, d.Findings)
	}
	d.holds(t, "topics", levelProblem, "hence.decisions: it does not exist", "hence topics create")
	d.follows(t, "hence.decisions: it does not exist", "decisions: 8 partitions of it cannot be read")
	d.follows(t, "hence.decisions: it does not exist", "sidecar: "+dev.URL+" is not ready: topics")
	_, out, _ := hence(t, "doctor")
	if lines := strings.Count(out, "problem  ") + strings.Count(out, "fix: "); lines != 2 ||
		!strings.HasSuffix(out, "1 problem.\n") {
		t.Errorf("it prints:\n%s", out)
	}
	if _, err := kadm.NewClient(kafka).DeleteTopics(t.Context(), topology.TopicResidue); err != nil {
		t.Fatal(err)
	}
	if _, d := doctor(t); d.Problems != 1 {
		t.Errorf("of two topics: %+v", d.Findings)
	} else {
		d.holds(t, "topics", levelProblem, "hence.residue: they do not exist", "hence topics create")
	}
}

// What a sidecar lacks follows from what is wrong with the cluster; without that it stands for itself.
func TestDoctorCauses(t *testing.T) {
	found := &checkup{}
	for _, part := range []string{"kafka", "nats", "view", "journal"} {
		found.problem("sidecar", "", "s is not ready: %s", part)
		found.tell(about{needs: part})
	}
	if got := found.causes(); len(got) != 4 || found.problems != 4 {
		t.Errorf("alone: %+v", got)
	}
	found.problem("brokers", "start Kafka", "nobody answers")
	found.problem("nats", "start NATS", "nobody answers")
	got := found.causes()
	if len(got) != 3 || found.problems != 3 || len(got[1].Causes) != 2 || len(got[2].Causes) != 1 ||
		got[0].Part != "sidecar" {
		t.Errorf("with the cluster away: %+v", got)
	}
}
