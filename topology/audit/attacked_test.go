package audit

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/topology"
)

// TestTail drops decisions behind the last seal, and all of them with all seals, while the intents stay.
func TestTail(t *testing.T) {
	t.Parallel()
	m := newLog(t, 200)
	decisions, seals := m.topics[topology.TopicDecisions], m.topics[topology.TopicSeals]
	m.topics[topology.TopicSeals] = seals[:len(seals)-1]
	m.topics[topology.TopicDecisions] = decisions[:len(decisions)-3]
	r := run(t, m, trusted(1))
	if !strings.Contains(strings.Join(r.Notes, "\n"), "the intents lead to decisions 198 to 200") {
		t.Errorf("three decisions that the intents lead to are not there, and the report does not say it: %+v", r)
	}
	m.topics[topology.TopicSeals], m.topics[topology.TopicDecisions] = []Record{}, []Record{}
	if r = run(t, m, trusted(1)); len(r.Findings) == 0 {
		t.Errorf("all decisions and seals are gone, and the report holds: %+v", r)
	}
}
