package topology

import (
	"strings"
	"testing"
)

func TestMarkerText(t *testing.T) {
	m := Marker{Table: "AAAAAAAAAAAAAAAAAAAAAQ", From: 1<<62 + 7}
	if got, ok := ParseMarker(m.String()); !ok || got != m || len(m.String()) > 64 {
		t.Errorf("%q is read as %+v, %v", m, got, ok)
	}
	// Whatever else a committed offset's metadata may be says nothing, and a reader begins at the start.
	for _, other := range []string{"", "hence1", "hence1 x", "hence1  7", "hence2 x 7", "hence1 x 7 8", "hence1 x -1",
		"hence1 x +7", "hence1 x 07", "hence1 x 7 ", " hence1 x 7", "hence1 x 9223372036854775808",
		strings.Repeat("x", 4096)} {
		if m, ok := ParseMarker(other); ok {
			t.Errorf("%q is read as %+v", other, m)
		}
	}
}

// Each group's markers stand at an input that it has, and replicas differ in nothing.
func TestMarkerTopic(t *testing.T) {
	for group, want := range map[string]string{GroupSequencer: TopicIntents, GroupClosure: TopicDecisions,
		GroupFrontier: TopicDecisions} {
		for _, replica := range []string{"", ReplicaA, ReplicaB} {
			if got := MarkerTopic(GroupOf(group, replica)); got != want {
				t.Errorf("group %s, replica %q: %s", group, replica, got)
			}
		}
	}
}
