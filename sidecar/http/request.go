package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"reflect"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate/spelling"
	"github.com/hence-dev/hence/sidecar/api"
)

// decode reads a JSON body strictly: one value, known fields only. An empty body is an empty object where that is
// allowed.
func (c *call) decode(into any, mayBeEmpty bool) error {
	if media := c.request.Header.Get("Content-Type"); media != "" && media != "application/json" {
		kind, _, err := mime.ParseMediaType(media)
		if err != nil || kind != "application/json" {
			return api.Problemf(api.CodeMediaType, "the Content-Type is %.60q: send application/json (curl: --json in place "+
				"of -d)",
				media)
		}
	}
	body := bytes.TrimSpace(c.body)
	if len(body) == 0 && mayBeEmpty {
		return nil
	}
	if err := api.CheckText(body); err != nil {
		return api.Problemf(api.CodeBadRequest, "%v: send bytes as content_base64", err)
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

// scope is the shard that a route names. Its path is taken as it was written, so that an escaped slash stays inside
// its segment.
func (c *call) scope() (string, error) {
	text := c.params.get("scope")
	if text == "" {
		return "", api.Problemf(api.CodeBadScope, "the address names no shard: write it after the slash, or leave "+
			"the slash out to list them")
	}
	if !strings.HasPrefix(text, "shard:/") {
		text = "shard:/" + text
	}
	return text, nil
}

// waiting bounds a call's waits by wait_ms.
func (f *Face) waiting(c *call, def time.Duration) (context.Context, context.CancelFunc, error) {
	most := uint64(f.Limits.WaitMost.Milliseconds())
	ms, err := c.number("wait_ms", uint64(def.Milliseconds()), 0, most)
	if err != nil {
		return nil, nil, err
	}
	if ms == most { // what every request is bound by
		return c.ctx, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Duration(ms)*time.Millisecond)
	return ctx, cancel, nil
}

// polling is waiting for a request that holds up no stop.
func (f *Face) polling(c *call) (context.Context, context.CancelFunc, error) {
	ctx, cancel, err := f.waiting(c, 0)
	if err != nil {
		return nil, nil, err
	}
	ctx, cut := context.WithCancel(ctx)
	stop := context.AfterFunc(f.Drain, cut)
	return ctx, func() { stop(); cut(); cancel() }, nil
}
