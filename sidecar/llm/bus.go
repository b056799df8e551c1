package llm

import (
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/hence-dev/hence/sidecar/api"
)

const (
	mostSuffix   = 256 // bytes
	unknownAgent = "unknown-agent"
)

// ServeBus answers a request at an address of S-Bus's proxy, for the name that its headers say, and reports whether it
// is one. guest makes the agent's guest.
func (f *Face) ServeBus(w http.ResponseWriter, r *http.Request, guest func() (*Guest, error)) bool {
	path := r.URL.EscapedPath()
	if path == "/health" {
		_, _ = io.WriteString(w, "ok")
		return true
	}
	provider := busProvider(path)
	if provider == "" {
		return false
	}
	name, suffix := r.Header.Get("X-SBus-Agent-Id"), r.Header.Get("X-SBus-Shard-Suffix")
	if name == "" {
		name = unknownAgent
	}
	f.serve(w, r, provider, strings.TrimPrefix(path, "/"), func() (*Guest, error) {
		if len(suffix) > mostSuffix || len(name) > mostSuffix {
			return nil, api.Problemf(api.CodeBadRequest, "X-SBus-Agent-Id and X-SBus-Shard-Suffix have at most %d bytes",
				mostSuffix)
		}
		if !utf8.ValidString(name) || !utf8.ValidString(suffix) { // no commit could give what is recorded for it
			return nil, api.Problemf(api.CodeBadRequest, "X-SBus-Agent-Id and X-SBus-Shard-Suffix are UTF-8")
		}
		g, err := guest()
		if err != nil {
			return nil, err
		}
		g.Who, g.Suffix, g.Answered = api.Told{Reader: name}, suffix, nil // calls of names of S-Bus are no turns
		return g, nil
	})
	return true
}

// busProvider is whose API has a path; empty: it is none of S-Bus's proxy.
func busProvider(path string) string {
	switch {
	case path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/"):
		return "anthropic"
	case strings.HasPrefix(path, "/v1beta/models/"),
		strings.HasPrefix(path, "/v1/models/") && strings.Contains(path, ":"): // else it is OpenAI's list of models
		return "gemini"
	case strings.HasPrefix(path, "/v1/chat/"), path == "/v1/responses", strings.HasPrefix(path, "/v1/responses/"),
		path == "/v1/models", strings.HasPrefix(path, "/v1/models/"):
		return "openai"
	}
	return ""
}
