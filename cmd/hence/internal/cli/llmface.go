package cli

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sidecar"
)

// llmFace is how clients of models are served.
type llmFace struct {
	LLM       []string `name:"llm" placeholder:"NAME[=URL]" help:"Serve a model's API: openai, anthropic, gemini."`
	Extractor []string `name:"llm-extractor" sep:"none" placeholder:"ARG" help:"URL or program that finds shards."`
}

// providers are the APIs that --llm names.
func (f *llmFace) providers() (sidecar.Models, error) {
	known := sidecar.KnownModels()
	out := sidecar.Models{APIs: map[string]*url.URL{}, Extractor: hookOf(f.Extractor)}
	err := sidecar.CheckHook(out.Extractor)
	if err == nil {
		err = findHook(out.Extractor)
	}
	switch {
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
