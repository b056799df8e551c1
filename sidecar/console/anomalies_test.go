package console

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/topology"
)

// TestAnomaliesAreShown: where anomalies are looked for the console shows them with the level, and else how to begin.
func TestAnomaliesAreShown(t *testing.T) {
	w := newWorld(t)
	if v := get[anomalyList](w, "/api/anomalies"); !strings.Contains(v.Off, "--anomalies") || v.Level != nil {
		t.Errorf("without: %+v", v)
	}
	w = newWorld(t)
	w.source.mu.Lock()
	w.source.anomalies = []topology.Anomaly{{Workspace: "default", Seq: 5, Kind: "A1"}}
	w.source.mu.Unlock()
	v := get[anomalyList](w, "/api/anomalies")
	if v.Off != "" || len(v.Items) != 1 || v.Items[0].Kind != "A1" || v.Level == nil || v.Level.Seq != 7 {
		t.Errorf("with: %+v", v)
	}
}
