package http

import (
	"context"
	_ "embed"
	"maps"
	"net/http"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
)

//go:embed openapi.yaml
var OpenapiYAML []byte

//go:embed openapi.json
var OpenapiJSON []byte

// readyWait is how long a dependency may take to say that it is there.
const readyWait = 2 * time.Second

func (f *Face) openapiYAML(*Call) (*Reply, error) {
	return &Reply{Status: http.StatusOK, media: "application/yaml", raw: OpenapiYAML}, nil
}

func (f *Face) openapiJSON(*Call) (*Reply, error) {
	return &Reply{Status: http.StatusOK, media: "application/json", raw: OpenapiJSON}, nil
}

func (f *Face) healthz(*Call) (*Reply, error) {
	return &Reply{Status: http.StatusOK, media: "text/plain; charset=utf-8", raw: []byte("ok\n")}, nil
}

// Readyz says per part what keeps the sidecar from serving.
func (f *Face) Readyz(c *Call) (*Reply, error) {
	ctx, cancel := context.WithTimeout(c.Ctx, readyWait)
	defer cancel()
	own, incarnation := f.Agent.Ready()
	parts := f.Workspace.Ready(ctx)
	maps.Copy(parts, own)
	if f.Drain.Err() != nil {
		parts["sidecar"] = api.ErrStopped
	}
	out := &api.Ready{Ready: true, Agent: f.AgentName, Workspace: f.Name, View: uint64(f.Workspace.Reached()),
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

func unlessUnready(out *api.Ready) *Reply {
	if !out.Ready {
		return jsonReply(http.StatusServiceUnavailable, out)
	}
	return jsonReply(http.StatusOK, out)
}
