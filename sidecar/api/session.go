package api

import (
	"net/http"
	"strings"
)

// maxSessionBytes bounds the name of a conversation.
const maxSessionBytes = 64

// SessionOf is the conversation that a request belongs to; empty: the agent's default one.
func SessionOf(header http.Header) (string, error) {
	values := header.Values("Hence-Session")
	if len(values) > 1 {
		return "", Problemf(CodeBadRequest, "the header Hence-Session is there %d times: send it once", len(values))
	}
	name := header.Get("Hence-Session")
	if len(name) > maxSessionBytes || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", Problemf(CodeBadRequest, "Hence-Session is %.80q: give at most %d printable ASCII characters", name,
			maxSessionBytes)
	}
	return name, nil
}
