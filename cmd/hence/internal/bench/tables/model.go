package tables

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// shape is how a provider's API is asked and answers.
type shape struct {
	name, path string
	ask        func(prompt string) any
	whole      func(text string) any
	event      func(piece string) any // of a stream
	ends       string                 // the last event
}

// shapes are those of the three providers.
func shapes() []shape {
	type m = map[string]any
	return []shape{
		{"openai", "/v1/chat/completions",
			func(p string) any { return m{"messages": []m{{"role": "user", "content": p}}} },
			func(t string) any { return m{"choices": []m{{"message": m{"content": t}}}} },
			func(t string) any { return m{"choices": []m{{"delta": m{"content": t}}}} }, "[DONE]"},
		{"anthropic", "/v1/messages",
			func(p string) any { return m{"system": p, "messages": []m{}} },
			func(t string) any { return m{"content": []m{{"type": "text", "text": t}}} },
			func(t string) any {
				return m{"type": "content_block_delta", "index": 0, "delta": m{"type": "text_delta", "text": t}}
			}, `{"type":"message_stop"}`},
		{"gemini", "/v1beta/models/scripted:generateContent",
			func(p string) any { return m{"contents": []m{{"parts": []m{{"text": p}}}}} },
			func(t string) any { return m{"candidates": []m{{"content": m{"parts": []m{{"text": t}}}}}} },
			func(t string) any { return m{"candidates": []m{{"content": m{"parts": []m{{"text": t}}}}}} },
			`{"candidates":[{"finishReason":"STOP"}]}`},
	}
}

// question is one turn to the scripted model, and what it does.
type question struct {
	shape  shape
	agent  string // by whose name it is asked
	prompt string
	pieces []string // of the answer; several: it is streamed
	thinks func() error
	within func() error // before the last event of a stream
}

// scripted is a model that answers what each turn says. Turns are told apart by a header.
type scripted struct {
	url string

	mu    sync.Mutex
	turns map[string]*question
	asked int
	wrong error
}

const turnHeader = "X-Scripted-Turn"

func (e *Env) script(ctx context.Context) (*scripted, error) {
	m := &scripted{turns: map[string]*question{}}
	var err error
	m.url, err = serve(ctx, m)
	return m, err
}

// providers are the addresses under which the model stands for all providers.
func (m *scripted) providers() map[string]string {
	return map[string]string{"openai": m.url, "anthropic": m.url, "gemini": m.url}
}

// ServeHTTP answers as the turn says.
func (m *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	t := m.turns[r.Header.Get(turnHeader)]
	delete(m.turns, r.Header.Get(turnHeader))
	m.mu.Unlock()
	if t == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	if t.thinks != nil {
		m.note(t.thinks())
	}
	if len(t.pieces) == 1 {
		w.Header().Set("Content-Type", "application/json")
		m.note(json.NewEncoder(w).Encode(t.shape.whole(t.pieces[0])))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, piece := range t.pieces {
		m.note(event(w, t.shape.event(piece)))
	}
	if t.within != nil {
		m.note(t.within())
	}
	_, err := fmt.Fprintf(w, "data: %s\n\n", t.shape.ends)
	m.note(err)
}

func event(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(w, "data: %s\n\n", text)
	}
	return errors.Join(err, http.NewResponseController(w).Flush())
}

// note keeps what went wrong in a turn: its asker returns it.
func (m *scripted) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = errors.Join(m.wrong, err)
}

// expects makes a turn known; the model answers it once.
func (m *scripted) expects(t *question) (id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	id = strconv.Itoa(m.asked)
	m.turns[id] = t
	return id
}

// ask asks the model by way of an address, and returns the answer as it came.
func (m *scripted) ask(ctx context.Context, c *http.Client, at string, t *question) (string, error) {
	text, err := json.Marshal(t.shape.ask(t.prompt))
	if err != nil {
		return "", fmt.Errorf("write a prompt: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+t.shape.path, bytes.NewReader(text))
	if err != nil {
		return "", fmt.Errorf("make a request to a model: %w", err)
	}
	r.Header.Set(turnHeader, m.expects(t))
	r.Header.Set("X-SBus-Agent-Id", t.agent)
	r.Header.Set("Content-Type", "application/json")
	out, err := c.Do(r)
	if err != nil {
		return "", fmt.Errorf("ask a model: %w", err)
	}
	defer out.Body.Close()
	answer, err := io.ReadAll(out.Body)
	if err == nil && out.StatusCode != http.StatusOK {
		err = fmt.Errorf("a model answers %d %.200s", out.StatusCode, answer)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err, m.wrong = errors.Join(err, m.wrong), nil
	return string(answer), err
}

// wordPolicy is a policy that finds the names of keys.
func wordPolicy(mode string, keys []string, names map[string][]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: %d\nserver: words\ntools: []\nvocabulary:\n  mode: %s\n  terms:\n", 1, mode)
	for _, key := range keys {
		fmt.Fprintf(&b, "  - {shard: %s", key)
		if list := names[key]; len(list) > 0 {
			fmt.Fprintf(&b, ", names: [%s]", strings.Join(list, ", "))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// talking is a place whose agents ask a scripted model by way of what serves the shards.
type talking struct {
	*bus
	model *scripted
	meter string // where the metrics are; empty: there are none
}

// talk starts Hence between a workspace and a scripted model.
func (e *Env) talk(ctx context.Context, policy, extractor string) (*talking, error) {
	m, err := e.script(ctx)
	if err != nil {
		return nil, err
	}
	place, err := e.Ground.Open(ctx, Site{Nodes: 1, Agents: 1, Policy: policy, Models: m.providers(),
		ExtractorURL: extractor})
	if err != nil {
		return nil, err
	}
	t := &talking{bus: newBus(place.Buses[0]), model: m}
	if len(place.Metric) > 0 {
		t.meter = place.Metric[0]
	}
	return t, nil
}

// say asks the model a turn.
func (t *talking) say(ctx context.Context, in question) (string, error) {
	return t.model.ask(ctx, t.http, t.url, &in)
}

// proxied is a store in memory with what the published proxy does before it: whatever names stand in a request or its
// answer are registered once the answer is there, at the versions of then.
func (e *Env) proxied(ctx context.Context, keys []string) (*talking, error) {
	m, err := e.script(ctx)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(m.url)
	if err != nil {
		return nil, fmt.Errorf("where a scripted model is: %w", err)
	}
	s := inMemory(wholeStep)
	on := httputil.NewSingleHostReverseProxy(to)
	at, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(turnHeader) == "" {
			s.ServeHTTP(w, r)
			return
		}
		said, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(said))
		kept := &keeps{ResponseWriter: w}
		on.ServeHTTP(kept, r)
		said = append(said, kept.body.Bytes()...)
		var used []string
		for _, key := range keys {
			if regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(key) + `\b`).Match(said) {
				used = append(used, key)
			}
		}
		if len(keys) > 0 {
			_, _, err = s.register(r.Context(), r.Header.Get("X-SBus-Agent-Id"), used)
			m.note(err)
		}
		_, _ = w.Write(kept.body.Bytes())
	}))
	return &talking{bus: newBus(at), model: m}, err
}

// keeps is an answer that is not sent yet.
type keeps struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (k *keeps) Write(p []byte) (int, error) { return k.body.Write(p) }

// covered are references that answers made, by how they had been read, as the meter has them.
func (t *talking) covered(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	if t.meter == "" {
		return out, nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.meter, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	got, err := t.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer got.Body.Close()
	line := regexp.MustCompile(`^hence_sidecar_model_references_total\{kind="(\w+)",.*\} (\d+)$`)
	for lines := bufio.NewScanner(got.Body); lines.Scan(); {
		if part := line.FindStringSubmatch(lines.Text()); part != nil {
			n, _ := strconv.Atoi(part[2])
			out[part[1]] += n
		}
	}
	return out, nil
}

// given is how old a key is in a name's delivery log; not known: it is not there.
func (t *talking) given(ctx context.Context, agent, key string) (age time.Duration, known bool, err error) {
	var out struct {
		Agents map[string]map[string]struct {
			Age float64 `json:"age_secs"`
		}
	}
	if _, err := t.ask(ctx, http.MethodGet, "/admin/delivery-log", nil, &out, http.StatusOK); err != nil {
		return 0, false, err
	}
	one, known := out.Agents[agent][key]
	return time.Duration(one.Age * float64(time.Second)), known, nil
}

// move writes a shard by another name.
func (t *talking) move(ctx context.Context, key string) error {
	for {
		now, err := t.get(ctx, key, "")
		if err != nil {
			return err
		}
		if done, err := t.commit(ctx, key, "other", "moved", now.Version); err != nil || done {
			return err
		}
	}
}
