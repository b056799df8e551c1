package console

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/feed"
)

// policy is what the page may do: load its own files, ask its own server, and nothing else. It may not even write text
// as markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// guard puts the same protection before every route.
type guard struct {
	hosts []string
	cross *http.CrossOriginProtection
	next  http.Handler
}

func newGuard(hosts []string, next http.Handler) *guard {
	g := &guard{cross: http.NewCrossOriginProtection(), next: next}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	return g
}

// ServeHTTP refuses what a browser was tricked into.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	if probe(r) {
		g.next.ServeHTTP(w, r)
		return
	}
	if err := g.checkHost(r.Host); err != nil {
		feed.Refuse(w, err)
		return
	}
	if err := g.cross.Check(r); err != nil {
		feed.Refuse(w, refusal(http.StatusForbidden, codeCrossOrigin,
			"the request comes from another site's page (%v): open the console itself", err))
		return
	}
	if site := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, "/api/") && site != "" &&
		site != "same-origin" && site != "none" {
		feed.Refuse(w, refusal(http.StatusForbidden, codeCrossOrigin, "another site's page may not read the console"))
		return
	}
	if _, err := api.Query(r.URL.RawQuery); err != nil { // what routes read of it would lack a part
		feed.Refuse(w, badRequest("%v", err))
		return
	}
	g.next.ServeHTTP(w, r)
}

// probe: health checks say nothing that is worth protecting, and come under any name.
func probe(r *http.Request) bool { return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" }

// checkHost refuses names that are not the console's. A page of another site whose name was pointed at this address
// (DNS rebinding) comes with its own name; an address in the place of a name cannot be pointed anywhere.
func (g *guard) checkHost(host string) error {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		slices.Contains(g.hosts, name) {
		return nil
	}
	return refusal(http.StatusMisdirectedRequest, codeUnknownHost,
		"the console is not known under the name %.100q: use its address, or start it with --host %.100s", name, name)
}

// The codes that only the console answers with.
const (
	codeCrossOrigin = "cross_origin"
	codeUnknownHost = "unknown_host"
	codeNoSidecar   = "no_sidecar"
)

func refusal(status int, code, format string, args ...any) *api.Problem {
	return &api.Problem{Type: api.ProblemType(code), Title: http.StatusText(status), Status: status, Code: code,
		Detail: fmt.Sprintf(format, args...), Retryable: status == http.StatusTooManyRequests || status >= 500}
}

func notFound(format string, args ...any) error {
	return refusal(http.StatusNotFound, "not_found", format, args...)
}

func badRequest(format string, args ...any) error {
	return refusal(http.StatusBadRequest, "bad_request", format, args...)
}
