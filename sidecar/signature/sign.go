package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
)

// Signer signs requests with one key.
type Signer struct {
	Now func() time.Time // the wall clock's

	key ed25519.PrivateKey
	id  string
}

// NewSigner signs with a key.
func NewSigner(key ed25519.PrivateKey) *Signer {
	return &Signer{key: key, id: KeyID(key.Public().(ed25519.PublicKey)), Now: time.Now}
}

// KeyID names the key.
func (s *Signer) KeyID() string { return s.id }

// Sign signs a request that is complete but for its signature. body is what it will be sent with.
func (s *Signer) Sign(r *http.Request, body []byte) error {
	if len(body) > 0 {
		sum := sha256.Sum256(body)
		digest := httpsfv.NewDictionary()
		digest.Add("sha-256", httpsfv.NewItem(sum[:]))
		text, err := httpsfv.Marshal(digest)
		if err != nil {
			return fmt.Errorf("write the digest: %w", err)
		}
		r.Header.Set(digestHeader, text)
	}
	covered := httpsfv.InnerList{Params: httpsfv.NewParams()}
	for _, name := range append([]string{"@method", "@authority", "@path", "@query"}, bound(r.Header)...) {
		covered.Items = append(covered.Items, httpsfv.NewItem(name))
	}
	covered.Params.Add("created", s.Now().Unix())
	covered.Params.Add("nonce", rand.Text())
	covered.Params.Add("keyid", s.id)
	covered.Params.Add("alg", algorithm)
	covered.Params.Add("tag", Tag)
	text, err := base(r, covered)
	if err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	inputs, signatures := httpsfv.NewDictionary(), httpsfv.NewDictionary()
	inputs.Add(label, covered)
	signatures.Add(label, httpsfv.NewItem(ed25519.Sign(s.key, text)))
	for name, value := range map[string]*httpsfv.Dictionary{inputHeader: inputs, signatureHeader: signatures} {
		text, err := httpsfv.Marshal(value)
		if err != nil {
			return fmt.Errorf("write the signature: %w", err)
		}
		r.Header.Set(name, text)
	}
	return nil
}

// Transport signs the requests that go through another one.
func (s *Signer) Transport(next http.RoundTripper) http.RoundTripper { return &transport{s, next} }

type transport struct {
	signer *Signer
	next   http.RoundTripper
}

// RoundTrip is part of http.RoundTripper. It reads the body whole: its digest stands in front of it. What a redirect
// asks for is not signed.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, fmt.Errorf("read the body that is to be signed: %w", err)
		}
	}
	if r.Response != nil { // whoever redirects would choose what the key signs
		return nil, fmt.Errorf("a redirect leads to %s, and no request is signed for it: give that address if it is the "+
			"sidecar's", r.URL.Redacted())
	}
	r = r.Clone(r.Context())
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	if err := t.signer.Sign(r, body); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(r)
}
