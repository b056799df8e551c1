// Package signature signs requests to a sidecar and checks such signatures: HTTP Message Signatures (RFC 9421) with
// Ed25519, and Content-Digest (RFC 9530) for bodies.
//
// Guarantees: a request that Verify lets through was signed by the key that it names, for this sidecar, within the
// last minute, and was not let through before; its method, address, body and all headers that mean something here are
// as they were signed. A read of a changed body to its end returns an error.
package signature

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"
)

// The names that signatures of ours have in common.
const (
	Tag       = "hence"
	algorithm = "ed25519"
	label     = "hence"

	inputHeader     = "Signature-Input"
	signatureHeader = "Signature"
	digestHeader    = "Content-Digest"
	digestComponent = "content-digest"
)

// KeyID names a public key: its SHA-256, in base64 for addresses. It is the keyid of signatures, and the signer of
// decisions.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// binds reports whether a header means something to one of the faces, so that a signature has to cover it.
func binds(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "idempotency-key", "if-match", "if-none-match", "content-type", "content-encoding", digestComponent,
		"last-event-id":
		return true
	}
	return strings.HasPrefix(name, "hence-") || strings.HasPrefix(name, "x-sbus-") || strings.HasPrefix(name, "mcp-")
}

// bound are the names of a request's headers that a signature has to cover, in lower case, sorted.
func bound(h http.Header) (names []string) {
	for name := range h {
		if binds(name) {
			names = append(names, strings.ToLower(name))
		}
	}
	slices.Sort(names)
	return names
}

// authority is the host that a request is for, as signatures have it: in lower case, without the scheme's own port.
func authority(r *http.Request) string {
	host := r.Host
	if host == "" && r.URL != nil { // of a request that is to be sent
		host = r.URL.Host
	}
	host = strings.ToLower(host)
	if scheme(r) == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

func scheme(r *http.Request) string {
	if r.TLS != nil || r.URL != nil && r.URL.Scheme == "https" {
		return "https"
	}
	return "http"
}

// component is the value of a covered component.
func component(r *http.Request, name string) (string, error) {
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	switch name {
	case "@method":
		return r.Method, nil
	case "@authority":
		return authority(r), nil
	case "@scheme":
		return scheme(r), nil
	case "@path":
		return path, nil
	case "@query":
		return "?" + r.URL.RawQuery, nil
	case "@request-target":
		return target(r, path), nil
	case "@target-uri":
		return scheme(r) + "://" + authority(r) + target(r, path), nil
	}
	if strings.HasPrefix(name, "@") {
		return "", fmt.Errorf("the component %.60q is none that is known here", name)
	}
	if name != strings.ToLower(name) {
		return "", fmt.Errorf("the component %.60q is not in lower case", name)
	}
	values := r.Header.Values(name)
	if len(values) == 0 {
		return "", fmt.Errorf("the header %.60s is covered, and is not there", name)
	}
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.TrimSpace(v)
	}
	return strings.Join(trimmed, ", "), nil
}

func target(r *http.Request, path string) string {
	if r.URL.RawQuery == "" && !r.URL.ForceQuery {
		return path
	}
	return path + "?" + r.URL.RawQuery
}

// base is the text that is signed: a line for each component, and one for the parameters.
func base(r *http.Request, covered httpsfv.InnerList) ([]byte, error) {
	var out strings.Builder
	seen := map[string]bool{}
	for _, item := range covered.Items {
		name, isText := item.Value.(string)
		switch {
		case !isText:
			return nil, errors.New("a component is not a text in quotes")
		case seen[name]: // which of the two is meant would be a guess
			return nil, fmt.Errorf("the component %.60q is there twice", name)
		case len(item.Params.Names()) > 0:
			return nil, fmt.Errorf("the component %.60q has parameters: none are known here", name)
		}
		seen[name] = true
		value, err := component(r, name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%q: %s\n", name, value)
	}
	params, err := httpsfv.Marshal(covered)
	if err != nil {
		return nil, fmt.Errorf("write the parameters of a signature: %w", err)
	}
	out.WriteString(`"@signature-params": ` + params)
	return []byte(out.String()), nil
}
