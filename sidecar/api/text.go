package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What a request says is taken whole or refused: what is passed over in silence is another request.

// Query reads the query of an address. URL.Query leaves out what it cannot read, as "op=add;wait_ms=9".
func Query(raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("the query cannot be read (%w): write ; as %%3B and %% as %%25", err)
	}
	return query, nil
}

// WholeBody refuses headers that say that the body is packed, or a part of one: it would be kept as if it were all.
func WholeBody(h http.Header) error {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			return Problemf(CodeMediaType, "the Content-Encoding is %.60q: send the body as it is, without one", coding)
		}
	}
	if part := h.Get("Content-Range"); part != "" {
		return Problemf(CodeBadRequest, "the Content-Range is %.60q: send all of the content, without one", part)
	}
	return nil
}

// CheckText refuses JSON that is no text: bytes that are not UTF-8, and halves of surrogate pairs, as "\ud800".
// encoding/json makes U+FFFD of each, so that two names would be one.
func CheckText(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("the body is not UTF-8")
	}
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 || at+2 > len(text) {
			return nil
		}
		text = text[at:]
		switch half := unitOf(text); {
		case !utf16.IsSurrogate(half):
			text = text[2:] // of an escaped backslash both are passed, and behind a \u come digits
		case utf16.DecodeRune(half, unitOf(text[6:])) == unicode.ReplacementChar:
			return fmt.Errorf("the body has %.6s, which is half of a surrogate pair and no character", text)
		default:
			text = text[12:]
		}
	}
}

// unitOf is the unit of UTF-16 that a text begins with, as \u and four digits; -1: it begins with none.
func unitOf(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
