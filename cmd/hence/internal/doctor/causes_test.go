package doctor

import (
	"testing"
)

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
	found.problem("brokers", "start Kafka", "no answer")
	found.problem("nats", "start NATS", "no answer")
	got := found.causes()
	if len(got) != 3 || found.problems != 3 || len(got[1].Causes) != 2 || len(got[2].Causes) != 1 ||
		got[0].Part != "sidecar" {
		t.Errorf("with the cluster away: %+v", got)
	}
}
