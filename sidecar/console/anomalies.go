package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// Bounds of what is shown of anomalies.
const (
	anomaliesFresh = 2 * time.Second
	maxAnomalies   = 200
)

// anomalyList is what is found among the last operations of the workspace.
type anomalyList struct {
	Off     string                 `json:"off,omitempty"` // why there is nothing to show
	Level   *topology.AnomalyLevel `json:"level,omitempty"`
	Problem string                 `json:"problem,omitempty"` // why there is no level at the moment
	Items   []topology.Anomaly     `json:"items"`             // newest first
}

// anomalyCache keeps the list for a moment: reading it is reading a topic.
type anomalyCache struct {
	mu   sync.Mutex
	at   time.Time
	list anomalyList
}

func (c *Console) foundAnomalies(r *http.Request) (any, error) {
	a := &c.anomalies
	// Each look of each browser asks for it.
	a.mu.Lock()
	defer a.mu.Unlock()
	now := c.config.Clock.Now()
	if !a.at.IsZero() && now.Sub(a.at) < anomaliesFresh {
		return a.list, nil
	}
	list, err := c.lookForAnomalies(r.Context())
	if err != nil {
		return nil, err
	}
	a.at, a.list = now, list
	return list, nil
}

func (c *Console) lookForAnomalies(ctx context.Context) (list anomalyList, err error) {
	list.Items, err = c.config.Source.Anomalies(ctx, c.config.Workspace, maxAnomalies)
	if errors.Is(err, streams.ErrAnomaliesOff) {
		return anomalyList{Off: api.AnomaliesOff().Detail, Items: []topology.Anomaly{}}, nil
	}
	if err != nil {
		return list, err
	}
	if list.Items == nil {
		list.Items = []topology.Anomaly{}
	}
	if list.Level, err = c.config.Source.Level(ctx, c.config.Workspace); err != nil {
		list.Problem = cut(err.Error()) // what was found is shown all the same
	}
	return list, nil
}
