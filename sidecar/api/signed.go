package api

import "context"

// AcceptSignature says what a signature has to have, as RFC 9421 writes it.
const AcceptSignature = `hence=("@method" "@authority" "@path" "@query" "content-digest");created;nonce;keyid;` +
	`alg="ed25519";tag="hence"`

// Signed is what has become of a request's signature.
type Signed struct {
	Key string // its id; empty: no signature was for this sidecar
	Err error  // why it does not hold
}

type signedKey struct{}

// WithSigned notes with a request what has become of its signature.
func WithSigned(ctx context.Context, s Signed) context.Context {
	return context.WithValue(ctx, signedKey{}, s)
}

// SignedOf is what has become of the signature of a request.
func SignedOf(ctx context.Context) Signed {
	s, _ := ctx.Value(signedKey{}).(Signed)
	return s
}

// SignerOf is the id of the key that signed a request; empty: none did.
func SignerOf(ctx context.Context) string {
	s := SignedOf(ctx)
	if s.Err != nil {
		return ""
	}
	return s.Key
}
