package http

import (
	"bytes"
	"context"
	_ "embed"
	"maps"
	"net/http"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
)

// Document is the interface's description: OpenAPI 3 in YAML.
func Document() []byte { return bytes.Clone(openAPIYAML) }

//go:embed openapi.yaml
var openAPIYAML []byte

//go:embed openapi.json
var openAPIJSON []byte

// readyWait is how long a dependency may take to say that it is there.
const readyWait = 2 * time.Second

func (f *Face) openapiYAML(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "application/yaml", raw: openAPIYAML}, nil
}

func (f *Face) openapiJSON(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "application/json", raw: openAPIJSON}, nil
}

func (f *Face) healthz(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "text/plain; charset=utf-8", raw: []byte("ok\n")}, nil
}

// readyz says per part what keeps the sidecar from serving.
func (f *Face) readyz(c *call) (*reply, error) {
	ctx, cancel := context.WithTimeout(c.ctx, readyWait)
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

func unlessUnready(out *api.Ready) *reply {
	if !out.Ready {
		return jsonReply(http.StatusServiceUnavailable, out)
	}
	return jsonReply(http.StatusOK, out)
}
