package sidecar

import (
	"crypto/ed25519"
	"fmt"
	"net/http"

	"github.com/hence-dev/hence/sidecar/api"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/sidecar/signature"
)

// Key is a public key whose owner signs requests in place of showing a token.
type Key struct {
	Name   string // of the agent; of an operator or an approver: the person's
	Role   string // KeyAgent, KeyOperator or KeyApprover
	Public ed25519.PublicKey
}

// The roles of keys.
const (
	KeyAgent    = "agent"
	KeyOperator = "operator"
	KeyApprover = "approver"
)

// openKeys lets the keys in, after the agents are seated.
func (s *Sidecar) openKeys() error {
	keys := map[string]ed25519.PublicKey{}
	for _, k := range s.config.Keys {
		if len(k.Public) != ed25519.PublicKeySize {
			return fmt.Errorf("the key of %q has %d bytes, not %d", k.Name, len(k.Public), ed25519.PublicKeySize)
		}
		id, agent, role := signature.KeyID(k.Public), "", face.RoleNone
		switch k.Role {
		case KeyAgent:
			agent, role = k.Name, face.RoleAgent
		case KeyOperator:
			role = face.RoleOperator
		case KeyApprover:
			role = face.RoleApprover
		default:
			return fmt.Errorf("the key of %q has the role %q: give %s, %s or %s", k.Name, k.Role, KeyAgent, KeyOperator,
				KeyApprover)
		}
		if agent == "" && s.only != nil { // there is no other that the request could be of
			agent = s.only.Agent()
		}
		if err := s.seats.GrantKey(id, agent, k.Name, role); err != nil {
			return err
		}
		keys[id] = k.Public
	}
	s.verifier = signature.New(signature.Config{Keys: keys, Names: s.config.Authorities, Now: s.clock.Now})
	return nil
}

// signed checks the signatures of requests before a face has them. Each face answers what was found in its own shape.
func (s *Sidecar) signed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header["Signature-Input"] != nil {
			key, err := s.verifier.Verify(r)
			r = r.WithContext(api.WithSigned(r.Context(), api.Signed{Key: key, Err: err}))
		}
		h.ServeHTTP(w, r)
	})
}

// signsFor reports whether a key may sign in an agent's name.
func (s *Sidecar) signsFor(agent string) func(key string) bool {
	return func(key string) bool { return s.seats.Signs(key, agent) }
}
