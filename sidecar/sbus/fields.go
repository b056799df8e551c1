package sbus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sidecar/api"
)

// maxBody is the longest body that is read, in bytes.
const maxBody = 2 << 20

// plain is a refusal as text: of what no handler has looked at.
type plain struct {
	status int
	text   string
}

func (p *plain) Error() string { return p.text }

func wrongField(format string, args ...any) error {
	return &plain{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}

// fields are the members of a request's body; what is not asked for is not looked at.
type fields map[string]json.RawMessage

// fieldsOf reads the body of a request.
func fieldsOf(w http.ResponseWriter, r *http.Request) (fields, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	isJSON := kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
	if err != nil || !isJSON {
		return nil, &plain{http.StatusUnsupportedMediaType, "Expected request with `Content-Type: application/json`"}
	}
	if p, refused := errors.AsType[*api.Problem](api.WholeBody(r.Header)); refused {
		return nil, &plain{p.Status, p.Detail}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, &plain{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody)}
	}
	if !json.Valid(body) {
		return nil, &plain{http.StatusBadRequest, "Failed to parse the request body as JSON"}
	}
	if err := api.CheckText(body); err != nil {
		return nil, &plain{http.StatusBadRequest, "Failed to parse the request body as JSON: " + err.Error()}
	}
	in := fields{}
	if json.Unmarshal(body, &in) != nil || in == nil {
		return nil, wrongField("the body is not a JSON object")
	}
	return in, nil
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// one is the field of one of two spellings; not there: it is under none.
func (in fields) one(names ...string) (raw json.RawMessage, there bool, err error) {
	for _, name := range names {
		value, has := in[name]
		switch {
		case !has:
		case there:
			return nil, false, wrongField("duplicate field `%s`", names[0])
		default:
			raw, there = value, true
		}
	}
	return raw, there, nil
}

// text is a field that must be there.
func (in fields) text(names ...string) (out string, err error) {
	raw, there, err := in.one(names...)
	if err == nil && !there {
		err = wrongField("missing field `%s`", names[0])
	}
	if err == nil && (isNull(raw) || json.Unmarshal(raw, &out) != nil) {
		err = wrongField("field `%s` is not a string", names[0])
	}
	return out, err
}

// maybe is a text that may be left out; null is one that is left out only where that is allowed.
func (in fields) maybe(name string, null bool) (out string, err error) {
	raw, there := in[name]
	if !there || null && isNull(raw) {
		return "", nil
	}
	return in.text(name)
}

// version is a field that must be there: digits, and nothing else.
func (in fields) version(names ...string) (uint64, error) {
	raw, there, err := in.one(names...)
	if err != nil {
		return 0, err
	}
	if !there {
		return 0, wrongField("missing field `%s`", names[0])
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(raw)), 10, 64)
	if err != nil || n+1 == 0 {
		return 0, wrongField("field `%s` is not a version: give a whole number from 0 on", names[0])
	}
	return n, nil
}

// list are the elements of a field; null: none.
func (in fields) list(name string) (out []json.RawMessage, there bool, err error) {
	raw, there := in[name]
	if !there || isNull(raw) {
		return nil, false, nil
	}
	if json.Unmarshal(raw, &out) != nil {
		return nil, true, wrongField("field `%s` is not a list", name)
	}
	return out, true, nil
}

// key is the shard of a field, and the key itself.
func (in fields) key(name string) (key, scope string, err error) {
	if key, err = in.text(name); err != nil {
		return "", "", err
	}
	scope, err = scopeFor(key)
	return key, scope, err
}

func scopeFor(key string) (string, error) {
	scope, ok := scopeOf(key)
	if !ok {
		return "", wrongField("the key has more than about 1,000 bytes; each that is no letter, digit, '-', '.', '_' or "+
			"'~' counts as three: %.80q", key)
	}
	return scope, nil
}
