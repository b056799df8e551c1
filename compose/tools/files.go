package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
)

// maxChanges bounds the changes whose keys are remembered; maxFiles the files.
const (
	maxChanges = 20_000
	maxFiles   = 10_000
)

// change is one write of a file: what stood there before is its answer, so that it can be put back.
type change struct {
	Key    string  `json:"key"`
	Undone string  `json:"undone,omitempty"` // the key that this one compensates
	Name   string  `json:"name"`
	Text   *string `json:"text"`   // nil: the file is removed
	Former *string `json:"former"` // nil: there was none
	// Nothing: Undone was never used, and was only to be refused: the file stays as it is.
	Nothing bool `json:"nothing,omitempty"`
}

// files is a store of small texts: POST /files/{name} {"text": ...} replaces one and answers what stood there; a null
// text removes it. Each Idempotency-Key counts once; a compensated one never again.
type files struct {
	mu    sync.Mutex
	kept  *journal[change]
	texts map[string]string
	byKey map[string]change
	never map[string]bool
}

func newFiles(kept *journal[change]) http.Handler {
	f := &files{kept: kept, texts: map[string]string{}, byKey: map[string]change{}, never: map[string]bool{}}
	for _, c := range kept.records {
		f.apply(c)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /files/{name}", f.put)
	mux.HandleFunc("GET /files/{name}", f.get)
	mux.HandleFunc("GET /files", f.list)
	return mux
}

func (f *files) apply(c change) {
	switch {
	case c.Nothing:
	case c.Text == nil:
		delete(f.texts, c.Name)
	default:
		f.texts[c.Name] = *c.Text
	}
	f.byKey[c.Key] = c
	if c.Undone != "" {
		f.never[c.Undone] = true
	}
}

func (f *files) put(w http.ResponseWriter, r *http.Request) {
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	c := change{Name: r.PathValue("name"), Key: r.Header.Get("Idempotency-Key"),
		Undone: r.Header.Get("Hence-Compensates")}
	if json.Unmarshal(body, &struct {
		Text **string `json:"text"`
	}{&c.Text}) != nil || c.Key == "" {
		say(w, http.StatusBadRequest, problem(`send an Idempotency-Key and {"text": ...}, null to remove the file`))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	former, done := f.byKey[c.Key]
	old, there := f.texts[c.Name]
	switch {
	case f.never[c.Key]:
		say(w, http.StatusGone, problem("this key was compensated"))
		return
	case done && (former.Name != c.Name || !same(former.Text, c.Text)):
		say(w, http.StatusUnprocessableEntity, problem("this key was used for another change"))
		return
	case done:
		say(w, http.StatusOK, former)
		return
	case !there && len(f.texts) >= maxFiles:
		say(w, http.StatusInsufficientStorage, problem("there are too many files"))
		return
	case there:
		c.Former = &old
	}
	if r.Header.Get("Hence-Forbid-Only") != "" {
		_, came := f.byKey[c.Undone]
		c.Nothing = !came
	}
	forgot, err := f.kept.add(c)
	if err != nil {
		slog.Error("failed to record a file: it is not written", "error", err)
		say(w, http.StatusServiceUnavailable, problem("it cannot be kept"))
		return
	}
	f.apply(c)
	if forgot {
		f.forget()
	}
	slog.Info("done", "file", c.Name, "key", c.Key, "removed", c.Text == nil)
	say(w, http.StatusCreated, c)
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// forget drops the keys of changes that are not kept any more; the files stay until they are written again.
func (f *files) forget() {
	f.byKey, f.never = map[string]change{}, map[string]bool{}
	for _, c := range f.kept.records {
		f.byKey[c.Key] = c
		if c.Undone != "" {
			f.never[c.Undone] = true
		}
	}
}

func (f *files) get(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, ok := f.texts[r.PathValue("name")]
	if !ok {
		say(w, http.StatusNotFound, problem("there is no such file"))
		return
	}
	say(w, http.StatusOK, map[string]string{"text": text})
}

func (f *files) list(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	say(w, http.StatusOK, f.texts)
}
