package signature

import (
	"context"
	"crypto/ed25519"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology/pause"
)

// The bounds of what is taken.
const (
	Window = 60 * time.Second // how old a signature may be
	Ahead  = 5 * time.Second  // how far a signer's clock may be ahead: such a request waits for ours

	maxCovered = 64
	leastNonce = 16
	mostNonce  = 64
	// maxNonces bounds what is remembered of one key: some 1,000 requests a second, all the time.
	maxNonces = 1 << 16
)

// Config is what a Verifier is told.
type Config struct {
	Keys map[string]ed25519.PublicKey // by KeyID
	// Names are the hosts under which requests may be addressed, with ":port" where it is not the scheme's own, besides
	// the address that the connection has here.
	Names []string

	Now  func() time.Time                                 // nil: the wall clock's
	Wait func(ctx context.Context, d time.Duration) error // nil: pause.Sleep
}

// Verifier checks signatures of requests.
//
// Invariant: a nonce is forgotten only once its creation lies below floor, and floor never goes back. So no request is
// let through twice, whatever the clock does.
type Verifier struct {
	Config

	mu    sync.Mutex
	floor int64 // Unix seconds: what was created before is refused
	seen  map[string]*nonces
}

// nonces are those of one key, each with its creation.
type nonces struct {
	all map[string]int64
	at  map[int64][]string
}

// New makes a verifier. What was signed before now is refused: a process that was here before may have taken it.
func New(c Config) *Verifier {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wait == nil {
		c.Wait = pause.Sleep
	}
	c.Names = slices.Clone(c.Names)
	for i := range c.Names {
		c.Names[i] = strings.ToLower(c.Names[i])
	}
	// A request is let through in the second of its creation, or later. So what was created in the second after this
	// one was let through by no earlier process.
	return &Verifier{Config: c, floor: c.Now().Unix() + 1, seen: map[string]*nonces{}}
}

// claims are the parameters of a signature.
type claims struct {
	created, expires  int64
	nonce, keyid, alg string
}

// Verify returns the id of the key that signed a request; empty: no signature of it is for us. Its body is from then
// on checked while it is read.
func (v *Verifier) Verify(r *http.Request) (keyID string, err error) {
	covered, signed, err := ours(r.Header)
	if err != nil || covered == nil {
		return "", err
	}
	c, err := claimsOf(covered.Params)
	if err != nil {
		return "", err
	}
	key, known := v.Keys[c.keyid]
	if !known {
		return "", bad("the keyid %.60q is none of a key that this sidecar was told: see its --keys, and hence keys show "+
			"for what a key's id is", c.keyid)
	}
	if err := complete(r, covered); err != nil {
		return "", err
	}
	if err := check(r, *covered, key, signed); err != nil {
		return "", err
	}
	// From here on the request is the key's own: only its owner can make it wait, or take room.
	if at := authority(r); !v.addressed(r, at) {
		return "", bad("the request is addressed to %.100s, which is not this sidecar: another one could have been sent "+
			"it; take its address, or name that one with --authority", at)
	}
	if err := v.fresh(r.Context(), c); err != nil {
		return "", err
	}
	return c.keyid, watchBody(r)
}

// bad is a signature that does not hold.
func bad(format string, args ...any) error {
	return api.Problemf(api.CodeBadSignature, format, args...)
}

// ours finds the one signature that is meant for a sidecar; nil: there is none.
func ours(h http.Header) (covered *httpsfv.InnerList, signed []byte, err error) {
	lines := h.Values(inputHeader)
	if len(lines) == 0 {
		return nil, nil, nil
	}
	inputs, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil, nil, bad("Signature-Input cannot be read: %v; docs/signatures.md has one", err)
	}
	name := ""
	for _, one := range inputs.Names() {
		member, _ := inputs.Get(one)
		list, isList := member.(httpsfv.InnerList)
		if !isList {
			continue
		}
		if tag, _ := list.Params.Get("tag"); tag != Tag {
			continue
		}
		if covered != nil { // which one counts would be a guess
			return nil, nil, bad("Signature-Input has several signatures with tag=%q: send one", Tag)
		}
		covered, name = &list, one
	}
	if covered == nil {
		return nil, nil, nil
	}
	signatures, err := httpsfv.UnmarshalDictionary(h.Values(signatureHeader))
	if err != nil {
		return nil, nil, bad("Signature cannot be read: %v; docs/signatures.md has one", err)
	}
	member, _ := signatures.Get(name)
	item, _ := member.(httpsfv.Item)
	signed, isBytes := item.Value.([]byte)
	if !isBytes || len(signed) != ed25519.SignatureSize {
		return nil, nil, bad("Signature has no 64 bytes named %.40s, as Signature-Input has: send %[1]s=:BASE64:", name)
	}
	return covered, signed, nil
}

func claimsOf(p *httpsfv.Params) (c claims, err error) {
	number := func(name string) (n int64, there bool) {
		value, _ := p.Get(name)
		n, there = value.(int64)
		return n, there
	}
	text := func(name string) string {
		value, _ := p.Get(name)
		s, _ := value.(string)
		return s
	}
	created, dated := number("created")
	c = claims{created: created, nonce: text("nonce"), keyid: text("keyid"), alg: text("alg")}
	switch {
	case !dated:
		return c, bad("the signature has no parameter created: say when it was made, in seconds since 1970")
	case len(c.nonce) < leastNonce || len(c.nonce) > mostNonce:
		return c, bad("the signature's nonce has %d characters: make up %d to %d for each request", len(c.nonce), leastNonce,
			mostNonce)
	case c.keyid == "":
		return c, bad("the signature has no parameter keyid: hence keys show prints it")
	case c.alg != algorithm:
		return c, bad("the signature's alg is %.40q: sign with %q, and say so", c.alg, algorithm)
	}
	if _, there := p.Get("expires"); there {
		if c.expires, there = number("expires"); !there {
			return c, bad("the signature's expires is no number of seconds since 1970")
		}
	}
	return c, nil
}

// complete refuses a signature that leaves out what means something to a sidecar.
func complete(r *http.Request, covered *httpsfv.InnerList) error {
	if len(covered.Items) > maxCovered {
		return bad("the signature covers %d components: at most %d", len(covered.Items), maxCovered)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(covered.Items, func(i httpsfv.Item) bool { return i.Value == name })
	}
	wanted := []string{"@method", "@authority"}
	if !has("@target-uri") {
		wanted = append(wanted, "@path", "@query")
	}
	if r.ContentLength != 0 {
		wanted = append(wanted, digestComponent)
	}
	var missing []string
	for _, name := range append(wanted, bound(r.Header)...) {
		if !has(name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return bad("the signature does not cover %s: cover these, too", strings.Join(missing, ", "))
	}
	return nil
}

// check holds a signature against the request as it came.
func check(r *http.Request, covered httpsfv.InnerList, key ed25519.PublicKey, signed []byte) error {
	text, err := base(r, covered)
	if err != nil {
		return bad("%v", err)
	}
	if !ed25519.Verify(key, text, signed) {
		return bad("the signature does not fit the request as it came here: something between changed it, or it was " +
			"signed with another key or for another address; docs/signatures.md has the text that is signed")
	}
	return nil
}

// addressed reports whether a request is for this sidecar: one that was sent to another one, and handed on to this,
// is not let through.
func (v *Verifier) addressed(r *http.Request, authority string) bool {
	if slices.Contains(v.Names, authority) {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return false
	}
	host, port, err := net.SplitHostPort(authority)
	if err != nil { // the scheme's own port, which is not written
		host, port = strings.Trim(authority, "[]"), "80"
		if scheme(r) == "https" {
			port = "443"
		}
	}
	if port != strconv.Itoa(local.Port) {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.Equal(local.IP) || host == "localhost" && local.IP.IsLoopback()
}

// fresh refuses what is too old, or was let through before. What is from a moment ahead waits for it: were it let
// through now, a process that restarts in between could take it for one that is not old.
func (v *Verifier) fresh(ctx context.Context, c claims) error {
	now := v.Now()
	late := func(format string, args ...any) error { return api.Problemf(api.CodeSignatureTime, format, args...) }
	if ahead := time.Unix(c.created, 0).Sub(now); ahead > Ahead {
		return late("the request was signed %v ahead of this sidecar's clock, at most %v: set the clocks",
			ahead.Round(time.Second), Ahead)
	} else if ahead > 0 && v.Wait(ctx, ahead) != nil {
		return api.AsProblem(ctx.Err())
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now = v.Now()
	if least := now.Add(-Window).Unix(); least > v.floor {
		v.floor = least
		v.forget()
	}
	switch {
	case c.created > now.Unix(): // the clock was set back while it waited
		return late("the request was signed ahead of this sidecar's clock: set the clocks")
	case c.expires != 0 && c.expires <= now.Unix():
		return late("the signature has expired: sign the request again")
	case c.created < now.Add(-Window).Unix():
		return late("the request was signed %v ago, at most %v: sign it again, and set the clocks if that does not help",
			now.Sub(time.Unix(c.created, 0)).Round(time.Second), Window)
	case c.created < v.floor:
		return late("the request was signed before this sidecar started, or before its clock was set back: sign it again")
	}
	return v.first(c)
}

// forget drops the nonces that are refused by their time.
func (v *Verifier) forget() {
	for id, n := range v.seen {
		for at, list := range n.at {
			if at >= v.floor {
				continue
			}
			for _, nonce := range list {
				delete(n.all, nonce)
			}
			delete(n.at, at)
		}
		if len(n.all) == 0 {
			delete(v.seen, id)
		}
	}
}

// first remembers a nonce, and refuses one that was seen.
func (v *Verifier) first(c claims) error {
	n := v.seen[c.keyid]
	if n == nil {
		n = &nonces{all: map[string]int64{}, at: map[int64][]string{}}
		v.seen[c.keyid] = n
	}
	if _, seen := n.all[c.nonce]; seen {
		return api.Problemf(api.CodeSignatureSeen, "a request with this nonce was taken before: make up a nonce for each "+
			"request, and sign each try separately")
	}
	if len(n.all) >= maxNonces { // to forget one would let its request through again
		return api.Problemf(api.CodeBusy, "the key has signed %d requests within %v, and no more are remembered: ask again "+
			"later", maxNonces, Window)
	}
	n.all[c.nonce] = c.created
	n.at[c.created] = append(n.at[c.created], c.nonce)
	return nil
}
