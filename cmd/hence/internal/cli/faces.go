package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/mcptools"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sidecar"
)

// mcpFace is how MCP clients are served.
type mcpFace struct {
	MCP       string   `name:"mcp" type:"path" placeholder:"FILE" help:"Serve the MCP servers in FILE at /mcp."`
	MCPOrigin []string `name:"mcp-origin" placeholder:"ORIGIN" help:"Web pages whose requests /mcp takes."`
}

// upstreams begins to start the servers; nil: none are configured. What they log is for diagnosis.
func (f *mcpFace) upstreams(logger *slog.Logger) (*upstream.Set, error) {
	if f.MCP == "" {
		if len(f.MCPOrigin) > 0 {
			return nil, misused(fmt.Errorf("--mcp-origin says who may use --mcp, which is not given"))
		}
		return nil, nil
	}
	servers, err := upstream.ReadConfig(f.MCP)
	if err != nil {
		return nil, misused(err)
	}
	return upstream.Open(servers, upstream.Options{Log: logger, Version: binaryVersion()}), nil
}

// serving gives a sidecar's configuration what MCP clients are served; set may be nil.
func (f *mcpFace) serving(set *upstream.Set, c sidecar.Config) sidecar.Config {
	c.MCP = sidecar.MCP{Upstreams: set, Origins: f.MCPOrigin, Version: binaryVersion()}
	return c
}

// closeUpstreams ends the servers, where there are any.
func closeUpstreams(set *upstream.Set) {
	if set != nil {
		set.Close()
	}
}

// environment tells a program where MCP clients are served: the address, and a file as clients read it. remove
// ends that.
func (f *mcpFace) environment(url string) (env []string, remove func(), err error) {
	if f.MCP == "" {
		return nil, func() {}, nil
	}
	path, remove, err := clientFile(url + "/mcp")
	if err != nil {
		return nil, nil, err
	}
	return []string{"HENCE_MCP_URL=" + url + "/mcp", "HENCE_MCP_CONFIG=" + path}, remove, nil
}

// clientFile writes the configuration of an MCP client that knows the sidecar alone, into a folder of its own. The
// token is in the environment of who reads it, and not in the file.
func clientFile(url string) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "hence-mcp-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the MCP client's file: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	data, err := json.MarshalIndent(mcptools.ClientConfig(url), "", "  ")
	if err == nil {
		path = filepath.Join(dir, ".mcp.json")
		err = os.WriteFile(path, append(data, '\n'), 0o600)
	}
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("write the MCP client's file: %w", err)
	}
	return path, remove, nil
}

// llmFace is how clients of models are served.
type llmFace struct {
	LLM       []string `name:"llm" placeholder:"NAME[=URL]" help:"Serve a model's API: openai, anthropic, gemini."`
	Extractor []string `name:"llm-extractor" sep:"none" placeholder:"ARG" help:"URL or program that finds shards."`
}

// providers are the APIs that --llm names.
func (f *llmFace) providers() (sidecar.Models, error) {
	known := sidecar.KnownModels()
	out := sidecar.Models{APIs: map[string]*url.URL{}, Extractor: hookOf(f.Extractor)}
	switch err := askable(out.Extractor); {
	case err != nil:
		return out, misused(fmt.Errorf("--llm-extractor: %w", err))
	case len(f.Extractor) > 0 && len(f.LLM) == 0:
		return out, misused(errors.New("--llm-extractor is for the models that --llm names: give that, too"))
	}
	for _, text := range f.LLM {
		name, at, given := strings.Cut(text, "=")
		if _, ok := known[name]; !ok {
			return out, misused(fmt.Errorf("--llm %.60q: give %s, with =URL for another API of that shape", text,
				strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		}
		if !given {
			at = known[name]
		}
		to, err := url.Parse(at)
		if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" || to.User != nil {
			return out, misused(fmt.Errorf("--llm %s: %.200q is no http or https URL", name, at))
		}
		if to.Fragment != "" { // no request carries one
			return out, misused(fmt.Errorf("--llm %s: %.200q has a fragment: leave out what begins with #", name, at))
		}
		out.APIs[name] = to
	}
	return out, nil
}

// modelEnvironment tells a program where models are served, by the variables that the providers' clients read.
func modelEnvironment(side interface{ ModelURL(provider string) string }) (env []string) {
	for _, v := range []struct{ provider, name, suffix string }{
		{"openai", "OPENAI_BASE_URL", "/v1"},
		{"anthropic", "ANTHROPIC_BASE_URL", ""},
		{"gemini", "GOOGLE_GEMINI_BASE_URL", ""},
	} {
		if at := side.ModelURL(v.provider); at != "" {
			env = append(env, v.name+"="+at+v.suffix)
		}
	}
	return env
}

// sbusFace is how clients of S-Bus are served.
type sbusFace struct {
	SBus         string        `name:"sbus" placeholder:"ADDR" help:"Serve clients of S-Bus at HOST:PORT, too."`
	SBusAgent    string        `name:"sbus-agent" placeholder:"NAME" help:"Agent whose conversations their names are."`
	SBusMaxDelta int           `name:"sbus-max-delta" default:"2000" help:"Bytes of a commit of S-Bus; 0: no bound."`
	SBusMerge    bool          `name:"sbus-merge" help:"Merge commits of S-Bus that say that they only add."`
	SBusHook     []string      `name:"sbus-merge-hook" sep:"none" placeholder:"ARG" help:"URL or program to merge by."`
	SBusTTL      time.Duration `name:"sbus-session-ttl" default:"1h" help:"How long what a name of S-Bus read counts."`
}

// into gives a sidecar's configuration what the flags say.
func (f *sbusFace) into(c sidecar.Config) sidecar.Config {
	most := f.SBusMaxDelta
	if most == 0 {
		most = -1
	}
	c.SBus = sidecar.SBus{Listen: f.SBus, Agent: f.SBusAgent, MaxDelta: most, Merge: f.SBusMerge,
		MergeHook: f.mergeHook()}
	c.Limits.ReaderTTL = f.SBusTTL
	return c
}

// mergeHook is who merges what does not merge by regions: a URL, or a program with its arguments.
func (f *sbusFace) mergeHook() sidecar.Hook { return hookOf(f.SBusHook) }

// hookOf is whom a flag names: a URL, or a program with its arguments.
func hookOf(args []string) sidecar.Hook {
	if len(args) == 1 && strings.Contains(args[0], "://") {
		return sidecar.Hook{URL: args[0]}
	}
	return sidecar.Hook{Command: args}
}

// mergeable says why the merge hook cannot be asked. It is called before anything is started.
func (f *sbusFace) mergeable() error {
	if err := askable(f.mergeHook()); err != nil {
		return misused(fmt.Errorf("--sbus-merge-hook: %w", err))
	}
	return nil
}

// askable says why a hook cannot be asked.
func askable(hook sidecar.Hook) error {
	if err := sidecar.CheckHook(hook); err != nil {
		return err
	}
	return findHook(hook)
}

// keep says where the clients are served, and keeps a free port for the next start.
func (f *sbusFace) keep(side *sidecar.Sidecar, say func(format string, args ...any)) {
	if url := side.BusURL(); url != "" {
		_, f.SBus, _ = strings.Cut(url, "://")
		say("S-Bus at %s", url)
	}
}
