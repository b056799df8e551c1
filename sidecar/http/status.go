package http

import (
	"bytes"
	"context"
	_ "embed"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/hence-dev/hence/sidecar/api"
)

// Document is the interface's description: OpenAPI 3 in YAML.
func Document() []byte { return bytes.Clone(openAPIYAML) }

//go:embed openapi.yaml
var openAPIYAML []byte

// openAPIJSON is the document as JSON. It is made when it is first asked for: as a file it was 100 kB of the binary.
var openAPIJSON = sync.OnceValues(func() ([]byte, error) {
	text, err := yaml.YAMLToJSON(openAPIYAML)
	return append(text, '\n'), err
})

// readyWait is how long a dependency may take to say that it is there.
const readyWait = 2 * time.Second

func (f *Face) openapiYAML(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "application/yaml", raw: openAPIYAML}, nil
}

func (f *Face) openapiJSON(*call) (*reply, error) {
	text, err := openAPIJSON()
	return &reply{status: http.StatusOK, media: "application/json", raw: text}, err
}

func (f *Face) healthz(*call) (*reply, error) {
	return &reply{status: http.StatusOK, media: "text/plain; charset=utf-8", raw: []byte("ok\n")}, nil
}

// readyz says per part what keeps the sidecar from serving.
func (f *Face) readyz(c *call) (*reply, error) {
	ctx, cancel := context.WithTimeout(c.ctx, readyWait)
	defer cancel()
	parts := f.Workspace.Ready(ctx)
	if f.Drain.Err() != nil {
		parts["sidecar"] = api.ErrStopped
	}
	out := &api.Ready{Workspace: f.Name, View: uint64(f.Workspace.Reached())}
	all := f.Agents.All()
	if !f.Agents.Several() {
		own := all[0].Health()
		maps.Copy(parts, own.Parts)
		out.Agent, out.Incarnation = own.Agent, own.Incarnation
		out.Ready, out.Parts = healthOf(parts)
		return unlessUnready(out), nil
	}
	out.Ready, out.Parts = healthOf(parts)
	out.Agents = map[string]api.AgentReady{}
	served := false
	for _, seat := range all {
		own := seat.Health()
		one := api.AgentReady{Incarnation: own.Incarnation}
		if own.Parts["journal"] == nil { // of several, also what may be over with the next record: nothing else says it
			own.Parts["journal"] = own.Record
		}
		one.Ready, one.Parts = healthOf(own.Parts)
		out.Agents[own.Agent] = one
		served = served || one.Ready
	}
	// One agent that cannot be served is no reason to take the others out of service: its own entry says so.
	out.Ready = out.Ready && (served || len(all) == 0)
	return unlessUnready(out), nil
}

// healthOf says per part what is wrong with it, and whether nothing is.
func healthOf(parts map[string]error) (ready bool, out map[string]api.Health) {
	ready, out = true, map[string]api.Health{}
	for name, err := range parts {
		health := api.Health{OK: err == nil}
		if err != nil {
			health.Problem, ready = err.Error(), false
		}
		out[name] = health
	}
	return ready, out
}

func unlessUnready(out *api.Ready) *reply {
	if !out.Ready {
		return jsonReply(http.StatusServiceUnavailable, out)
	}
	return jsonReply(http.StatusOK, out)
}
