package adapters

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
)

// HeaderReplayed is how sinks mark an answer that they have kept under the key: "true". Stripe began with it; the
// policy may name another one.
const HeaderReplayed = "Idempotent-Replayed"

// verdict is what an answer says of the call.
type verdict uint8

const (
	happened verdict = iota
	refused
	unclear
)

// judge argues every answer; the policy's own lists come first.
func (a *httpAdapter) judge(status int, body []byte, whole bool) verdict {
	v := a.judgeStatus(status)
	switch {
	case v != happened || a.refusedWhen == nil && a.doneWhen == nil:
		return v
	case !whole:
		return unclear
	case a.refusedWhen != nil && a.refusedWhen.hold(body):
		return refused
	case a.doneWhen != nil && !a.doneWhen.hold(body):
		return unclear
	}
	return happened
}

func (a *httpAdapter) judgeStatus(status int) verdict {
	switch {
	case slices.Contains(a.spec.Done, status):
		return happened
	case slices.Contains(a.spec.Refused, status):
		return refused
	case status >= 200 && status <= 299:
		return happened // 202 too: the service took charge of it
	case len(a.spec.Refused) == 0 && provesNothing(status):
		return refused
	}
	return unclear
}

// provesNothing lists the statuses that prove of a first try that nothing happened: the request is turned down as it
// stands, by what comes before any work. All others are an unknown, among them 303 (how many services say "done"), 301
// and 302 (used for both), 406 (frameworks say it of an answer that they cannot write, after the work), 408 (a proxy
// may have forwarded what came), 409, 423 and 425 (also "this key is being worked on", which may yet succeed), 424
// (part of it may have been done), 429 (proxies say it of a repetition of their own, whose first sending is under
// way), 499 (a proxy saw the connection end, the service behind it may have acted), and 5xx.
func provesNothing(status int) bool {
	switch status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect: // "repeat it there": not carried out here
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, // who asks may not
		http.StatusProxyAuthRequired:
	case http.StatusNotFound, http.StatusGone, http.StatusMethodNotAllowed, // there is nothing that would do it
		http.StatusMisdirectedRequest:
	case http.StatusBadRequest, http.StatusLengthRequired, http.StatusRequestEntityTooLarge, // it is not taken in
		http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusUpgradeRequired, http.StatusRequestHeaderFieldsTooLarge:
	case http.StatusPreconditionFailed, http.StatusPreconditionRequired: // what it asked for to be so is not
	default:
		return false
	}
	return true
}

// replayed says that an answer is the one that the sink keeps under the key.
func (a *httpAdapter) replayed(header http.Header) bool {
	return header.Get(cmp.Or(a.spec.Replayed, HeaderReplayed)) == "true"
}

// conditions are what an answer's body must say; nil: none are declared.
type conditions []condition

type condition struct {
	path  template.Template
	among [][]byte // JSON of the values that may stand there
}

func (p *parser) conditions(what string, when gate.When) conditions {
	var out conditions
	for path, text := range when {
		// Absent is null, so that a condition can ask for no "errors".
		c := condition{path: p.text(what, "{"+path+"?}")}
		var list []any
		value, err := decodeAny(text)
		if is, ok := value.([]any); ok {
			list = is
		} else {
			list = []any{value}
		}
		if err != nil && p.err == nil {
			p.err = fmt.Errorf("%s: %s: %w", what, path, err)
		}
		for _, v := range list {
			c.among = append(c.among, toJSON(v))
		}
		out = append(out, c)
	}
	return out
}

func decodeAny(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// hold says whether a body meets them all. What is no JSON object meets none.
func (list conditions) hold(body []byte) bool {
	names, err := template.Object(body)
	if err != nil {
		return false
	}
	for _, c := range list {
		value, err := c.path.Value(template.Values{Names: names})
		if err != nil || !slices.ContainsFunc(c.among, func(is []byte) bool { return bytes.Equal(is, toJSON(value)) }) {
			return false
		}
	}
	return true
}
