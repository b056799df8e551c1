package llm

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hence-dev/hence/sidecar/api"
)

// Bounds of what an extractor is asked and answers.
const (
	maxExtracted = 1 << 20
	mostNamed    = 1000
)

// extract asks the extractor which shards the texts of a request, or of an answer, name.
func (p *pass) extract(ctx context.Context, side string, said []string) ([]string, error) {
	if p.f.Extract == nil || len(said) == 0 {
		return nil, nil
	}
	body, err := json.Marshal(map[string]any{"side": side, "texts": said})
	if err != nil {
		return nil, err
	}
	var out struct {
		Shards []string `json:"shards"`
	}
	data, err := p.f.Extract(ctx, body, maxExtracted)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err == nil && len(out.Shards) > mostNamed {
		err = fmt.Errorf("it names %d shards, at most %d are taken", len(out.Shards), mostNamed)
	}
	if err == nil {
		return out.Shards, nil
	}
	p.f.Figures.Model(p.provider, "unextracted")
	if p.guest.Vocabulary.Enforce { // what it would have found could not be held against the answer
		return nil, api.Problemf(api.CodeNotReady, "the extractor has not said which shards the %s names: %v", side, err)
	}
	p.f.Log.Warn("the extractor has not said which shards a text names", "side", side, "cause", err)
	return nil, nil
}
