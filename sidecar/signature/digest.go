package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"io"
	"net/http"

	"github.com/dunglas/httpsfv"

	"github.com/hence-dev/hence/sidecar/api"
)

// body is a request's body, which is held against its digest while it is read.
// Invariant: its end, or its last bytes where its length is known, is given only once it has the digest that was
// signed.
type body struct {
	io.ReadCloser
	left   int64 // of what Content-Length says; negative: nothing was said
	hashes map[hash.Hash][]byte
	err    error // what was found at the end
}

// watchBody has a request's body checked while it is read. Content-Digest is covered where there is a body.
func watchBody(r *http.Request) error {
	lines := r.Header.Values(digestHeader)
	if len(lines) == 0 {
		return nil
	}
	digests, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return bad("Content-Digest cannot be read: %v; send sha-256=:BASE64:", err)
	}
	b := &body{ReadCloser: r.Body, left: r.ContentLength, hashes: map[hash.Hash][]byte{}}
	for name, make := range map[string]func() hash.Hash{"sha-256": sha256.New, "sha-512": sha512.New} {
		member, there := digests.Get(name)
		if !there {
			continue
		}
		item, _ := member.(httpsfv.Item)
		sum, isBytes := item.Value.([]byte)
		if !isBytes {
			return bad("Content-Digest has no bytes for %s: send %[1]s=:BASE64:", name)
		}
		b.hashes[make()] = sum
	}
	if len(b.hashes) == 0 {
		return bad("Content-Digest has neither sha-256 nor sha-512: send sha-256=:BASE64:")
	}
	if b.left == 0 || r.Body == nil || r.Body == http.NoBody {
		return b.end()
	}
	r.Body = b
	return nil
}

// Read is part of io.Reader. What does not have its digest ends in an error that stays.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	for h := range b.hashes {
		h.Write(p[:n])
	}
	if b.left >= 0 {
		b.left -= int64(n)
	}
	if err == io.EOF || b.left == 0 {
		if b.err = b.end(); b.err != nil {
			return 0, b.err
		}
		b.err = io.EOF
		if n > 0 {
			return n, nil
		}
		return 0, io.EOF
	}
	return n, err
}

// end holds what was read against what was signed.
func (b *body) end() error {
	for h, sum := range b.hashes {
		if !bytes.Equal(h.Sum(nil), sum) {
			return api.Problemf(api.CodeWrongDigest, "the body is not the one that was signed: its Content-Digest is another; "+
				"something between changed it, or it was signed with another one")
		}
	}
	return nil
}
