package sidecar

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// decode reads a JSON body strictly: one value, known fields only. An empty body is an empty object where that is
// allowed.
func (c *call) decode(into any, mayBeEmpty bool) error {
	if media := c.request.Header.Get("Content-Type"); media != "" {
		kind, _, err := mime.ParseMediaType(media)
		if err != nil || kind != "application/json" {
			return api.Problemf(api.CodeMediaType, "the Content-Type is %.60q: send application/json (curl: --json in place of -d)",
				media)
		}
	}
	body := bytes.TrimSpace(c.body)
	if len(body) == 0 && mayBeEmpty {
		return nil
	}
	if !utf8.Valid(body) {
		return api.Problemf(api.CodeBadRequest, "the body is not UTF-8: send bytes as content_base64")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return api.Problemf(api.CodeBadRequest, "%s", decodeError(err, into))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return api.Problemf(api.CodeBadRequest, "the body has something after its JSON value")
	}
	if bytes.Equal(body, []byte("null")) {
		return api.Problemf(api.CodeBadRequest, "the body is null: send an object")
	}
	return nil
}

func decodeError(err error, into any) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field == "":
		return "the body is a JSON " + kind.Value + ": send an object"
	case errors.As(err, &kind):
		return "field " + kind.Field + " is a JSON " + kind.Value + ": it must be " + jsonKind(kind.Type)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the body ends before its JSON value does"
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, unknown := strings.CutPrefix(text, "unknown field "); unknown {
		return "there is no field " + name + instead(strings.Trim(name, `"`), fieldsOf(reflect.TypeOf(into)))
	}
	return "the body is not JSON: " + text
}

// jsonKind is what a field takes, as one writes it in JSON.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return "a whole number, without quotes, zero or more"
	case reflect.Int, reflect.Int64:
		return "a whole number, without quotes"
	case reflect.Slice:
		return "a list"
	}
	if fields := fieldsOf(t); len(fields) > 0 {
		return "an object with " + strings.Join(fields, ", ")
	}
	return "an object"
}

// fieldsOf lists the names of a struct's fields in JSON, at every depth: the decoder does not say where it stands.
func fieldsOf(t reflect.Type) (out []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" {
			out = append(out, name)
		}
		out = append(out, fieldsOf(t.Field(i).Type)...)
	}
	return out
}

// instead says which name is probably meant.
func instead(name string, known []string) string {
	if near := spelling.Near(name, known, 1); len(near) > 0 {
		return ": write " + near[0]
	}
	if len(known) == 0 {
		return ": this body has none"
	}
	return ": known here are " + strings.Join(known, ", ")
}

// contentOf is the content that a write carries.
func contentOf(w *api.Write) ([]byte, error) {
	switch {
	case w.Content != nil && w.ContentBase64 != nil:
		return nil, api.Problemf(api.CodeBadRequest, "content and content_base64 are both given: send one of them")
	case w.Content != nil:
		return []byte(*w.Content), nil
	case w.ContentBase64 != nil:
		body, err := base64.StdEncoding.DecodeString(*w.ContentBase64)
		if err != nil {
			return nil, api.Problemf(api.CodeBadRequest, "content_base64 is not standard base64: %v", err)
		}
		return body, nil
	}
	return nil, api.Problemf(api.CodeBadRequest, "content is missing: send content, or content_base64 for bytes that are no text")
}

// setContent puts a content into an answer: as text when it is text.
func setContent(out *api.Shard, body []byte) {
	out.Size = int64(len(body))
	if utf8.Valid(body) {
		text := string(body)
		out.Content = &text
		return
	}
	text := base64.StdEncoding.EncodeToString(body)
	out.ContentBase64 = &text
}

// inWorkspace checks the workspace that a route names.
func (s *Sidecar) inWorkspace(c *call) error {
	if name := c.params["workspace"]; name != s.config.Workspace {
		return api.Problemf(api.CodeUnknownWorkspace, "workspace %.70q is not served here: this sidecar serves %q",
			name, s.config.Workspace)
	}
	return nil
}

// pathScope is the shard that a route names. Its path is taken as it was written, so that an escaped slash stays
// inside its segment.
func (s *Sidecar) pathScope(c *call) (sequencer.Scope, error) {
	text := c.params["scope"]
	if text == "" {
		return "", api.Problemf(api.CodeBadScope, "the address names no shard: write it after the slash, or leave the slash out to "+
			"list them")
	}
	if !strings.HasPrefix(text, "shard:/") {
		text = "shard:/" + text
	}
	return s.shardNamed(c.ctx, text)
}

// waiting bounds a call's waits by wait_ms.
func (s *Sidecar) waiting(c *call, def time.Duration) (context.Context, context.CancelFunc, error) {
	most := uint64(s.config.Limits.WaitMost.Milliseconds())
	ms, err := c.number("wait_ms", uint64(def.Milliseconds()), 0, most)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(ms)*time.Millisecond)
	return ctx, cancel, nil
}

// find is the transaction that a route names.
func (s *session) find(id sequencer.TxID) (*tx, error) {
	agent, inc, ok := ownerOf(id)
	if !ok {
		return nil, api.Problemf(api.CodeUnknownTx, "%.100q is not the id of a transaction", string(id))
	}
	if agent != s.agent {
		return nil, api.Problemf(api.CodeOtherAgent, "%s is a transaction of agent %s; this is the sidecar of %s", id, agent, s.agent)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.txs[id]
	switch {
	case t != nil && t.fate == fateUnread:
		return nil, api.Problemf(api.CodeNotReady, "how %s ended is not known yet: the sidecar was started again and has not read "+
			"the log so far; ask again", id)
	case t != nil && t.fate == fateGone:
		return nil, api.Problemf(api.CodeForgotten, "%s was sealed, and how it ended is no longer in the log: look at what it "+
			"would have written, or GET /v1/tx/%s/closure, before its work is begun anew", id, id)
	case t != nil:
		return t, nil
	case inc == s.incarnation && s.knew(id):
		return nil, api.Problemf(api.CodeForgotten, "%s is over and no longer remembered", id)
	case inc < s.incarnation, s.incarnation == 0:
		return nil, api.Problemf(api.CodeSessionLost, "the session of %s has ended and nothing is known of it here any more. "+
			"If it was sealed, GET /v1/tx/%s/closure says how it ended; else begin a new transaction and read again", id, id)
	}
	return nil, api.Problemf(api.CodeUnknownTx, "there is no transaction %s", id)
}

// knew: the id was given out in this session.
func (s *session) knew(id sequencer.TxID) bool {
	n, ok := decimal(string(id)[lastDot(string(id))+1:])
	return ok && n >= 1 && n <= s.count
}
