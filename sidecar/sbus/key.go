package sbus

import (
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A key is any text, and a shard of one segment. Most keys stand there as they are, with the escapes of scopes. One
// that no segment can be, or that another spelling (NFC) would replace, stands behind a mark, in URL escapes.
const mark = "\x00"

const everyKey = "shard:/*"

// scopeOf is the shard of a key; not ok: the key is too long.
func scopeOf(key string) (scope string, ok bool) {
	if key != "" && key != "." && key != ".." && !strings.HasPrefix(key, mark) {
		exact, err := sequencer.ParseScope("shard:/" + url.PathEscape(key))
		if err == nil && topology.IsNormal(exact) {
			return string(exact), true
		}
	}
	exact, err := sequencer.ParseScope("shard:/" + url.PathEscape(mark+url.QueryEscape(key)))
	return string(exact), err == nil && utf8.ValidString(key)
}

// keyOf is the key of a shard; not ok: it is not one of this face.
func keyOf(scope string) (key string, ok bool) {
	segment, found := strings.CutPrefix(scope, "shard:/")
	if !found || strings.Contains(segment, "/") {
		return "", false
	}
	key, err := url.PathUnescape(segment)
	if err != nil {
		return "", false
	}
	if behind, marked := strings.CutPrefix(key, mark); marked {
		key, err = url.QueryUnescape(behind)
	}
	return key, err == nil
}

// facts are what a shard of this face says beside its content. They travel with each write, as parameters of its
// media type.
type facts struct {
	id      string // SHA-256 of the first content
	goal    string
	created time.Time
	updated time.Time
}

const media = "text/plain"

// String is the media type of a content with its facts.
func (f *facts) String() string {
	params := map[string]string{"charset": "utf-8", "id": f.id, "updated": nanos(f.updated)}
	if !f.created.IsZero() {
		params["created"] = nanos(f.created)
	}
	if f.goal != "" {
		params["goal"] = f.goal
	}
	return mime.FormatMediaType(media, params)
}

// factsOf are the facts in a media type. A shard that others have written has none: its id is made of its name.
func factsOf(mediaType, scope string) (f facts) {
	f.id = hashOf(scope)
	_, params, err := mime.ParseMediaType(mediaType)
	if err != nil || params["id"] == "" {
		return f
	}
	return facts{id: params["id"], goal: params["goal"], created: instant(params["created"]),
		updated: instant(params["updated"])}
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func instant(text string) (t time.Time) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		t = time.Unix(0, n)
	}
	return t
}

// timestamp is a time as the wire has it; one that is not known is the epoch's.
func timestamp(t time.Time) string {
	if t.IsZero() {
		t = time.Unix(0, 0)
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
}
