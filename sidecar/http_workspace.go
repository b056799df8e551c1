package sidecar

import (
	"context"
	_ "embed"
	"maps"
	"net/http"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
)

//go:embed openapi.yaml
var openapiYAML []byte

//go:embed openapi.json
var openapiJSON []byte

// readyWait is how long a dependency may take to say that it is there.
const readyWait = 2 * time.Second

func (f *face) openapiYAML(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "application/yaml", raw: openapiYAML}, nil
}

func (f *face) openapiJSON(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "application/json", raw: openapiJSON}, nil
}

func (f *face) healthz(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "text/plain; charset=utf-8", raw: []byte("ok\n")}, nil
}

// readyz says per part what keeps the sidecar from serving.
func (f *face) readyz(c *call) (*reply, error) {
	ctx, cancel := context.WithTimeout(c.ctx, readyWait)
	defer cancel()
	own, incarnation := f.agent.Ready()
	parts := f.workspace.Ready(ctx)
	maps.Copy(parts, own)
	if f.drain.Err() != nil {
		parts["sidecar"] = api.ErrStopped
	}
	out := &api.Ready{Ready: true, Agent: f.agentName, Workspace: f.name, View: uint64(f.workspace.Reached()),
		Incarnation: uint64(incarnation), Parts: map[string]api.Health{}}
	for name, err := range parts {
		health := api.Health{OK: err == nil}
		if err != nil {
			health.Problem, out.Ready = err.Error(), false
		}
		out.Parts[name] = health
	}
	return unlessUnready(out), nil
}

func unlessUnready(out *api.Ready) *reply {
	if !out.Ready {
		return jsonReply(http.StatusServiceUnavailable, out)
	}
	return jsonReply(http.StatusOK, out)
}
