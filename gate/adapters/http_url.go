package adapters

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/hence-dev/hence/gate/policy/template"
)

// target expands a URL and holds it to the declared hosts.
func (a *httpAdapter) target(t template.Template, v template.Values) (*url.URL, error) {
	text, err := t.Expand(v, escapeURL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("url: it is no absolute URL of http or https")
	}
	if u.User != nil {
		return nil, errors.New("url: it names a user: send credentials in a header")
	}
	if emptySegments(text) > emptySegments(standIn(t)) {
		return nil, errors.New("url: a value is empty or left out, and its path would name something else: send it")
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if segment == "." || segment == ".." {
			return nil, errors.New("url: a value makes a '.' or '..' of its path")
		}
	}
	if host := hostPort(u); !slices.Contains(a.env.Hosts, host) {
		return nil, fmt.Errorf("url: the host %s is not declared: add it to the policy's hosts", host)
	}
	return u, nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// standIn is the URL with something in the place of each value.
func standIn(t template.Template) string {
	var out strings.Builder
	for _, part := range t.Parts() {
		out.WriteString(part.Literal)
		if part.Placeholder != nil {
			out.WriteByte('x')
		}
	}
	return out.String()
}

// emptySegments counts those of a URL's path.
func emptySegments(text string) int {
	_, rest, _ := strings.Cut(text, "://")
	_, path, _ := strings.Cut(rest, "/")
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	n := 0
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" {
			n++
		}
	}
	return n
}

// escapeURL makes a value one piece of the place where it stands: it starts no segment, parameter or host of its own.
func escapeURL(p template.Placeholder, before, value string) (string, error) {
	_, rest, found := strings.Cut(before, "://")
	if !found || !strings.ContainsAny(rest, "/?#") {
		return "", errors.New("scheme and host are literal: a value may stand behind them only")
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return "", errors.New("it holds a control character")
	}
	if strings.Contains(before, "?") {
		return url.QueryEscape(value), nil
	}
	check := staysInPlace
	if slices.Contains([]string{"$key", "$tx", "$index"}, p.Path[0]) {
		check = noDots
	}
	if err := check(value); err != nil {
		return "", err
	}
	return url.PathEscape(value), nil
}

const maxDecoding = 4 // times that a value may be percent-encoded

// staysInPlace refuses a value that a server may take for the way to another place. That it is escaped does not help:
// servers, and proxies before them, decode before they route, some more than once, take '\' and look-alikes for '/',
// and drop what follows a ';'.
func staysInPlace(value string) error {
	for range maxDecoding {
		value = norm.NFKC.String(value)
		if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
			return errors.New("it holds bytes that are no text")
		}
		if strings.Contains(value, `\`) {
			return errors.New(`it holds a '\', which servers take for a '/'`)
		}
		for name := range strings.SplitSeq(value, "/") {
			name, _, _ = strings.Cut(name, ";")
			if strings.Trim(name, ". ") == "" {
				return errors.New("it has a part that is empty or of dots only, which leads elsewhere")
			}
		}
		decoded := decodePercent(value)
		if decoded == value {
			return nil
		}
		value = decoded
	}
	return errors.New("it is percent-encoded over and over")
}

// noDots is for names that the sink itself was given with the call: they may look like anything, as a business key
// that is made of a URL does. Escaped, they are one segment of the path.
func noDots(value string) error {
	for name := range strings.SplitSeq(value, "/") {
		if name == "." || name == ".." {
			return errors.New("it has a part of dots only, which leads elsewhere")
		}
	}
	return nil
}

// decodePercent decodes what can be decoded, as lenient servers do.
func decodePercent(text string) string {
	return percent.ReplaceAllStringFunc(text, func(at string) string {
		b, err := hex.DecodeString(at[1:])
		if err != nil {
			panic(fmt.Sprintf("gate/adapters: %q is no percent-encoding: %v", at, err))
		}
		return string(b)
	})
}

var percent = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
