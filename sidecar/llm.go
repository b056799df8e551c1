package sidecar

import (
	"context"
	"crypto/subtle"
	"net/http"
	"net/url"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar/api"
	face "github.com/hence-dev/hence/sidecar/http"
	"github.com/hence-dev/hence/sidecar/llm"
)

// openLLM opens the face between agents and their models where a provider is named.
func (s *Sidecar) openLLM() {
	if len(s.config.Models.APIs) == 0 {
		return
	}
	s.llm = llm.New(llm.Config{Providers: s.config.Models.APIs, Enter: s.enterLLM, Figures: s.metrics,
		Extract: s.extractor(), Calls: s.config.Limits.Requests, Log: s.log})
}

// ModelURL is the base of a provider's API for clients of the one agent; empty: it is not served.
func (s *Sidecar) ModelURL(provider string) string {
	if s.only == nil {
		return ""
	}
	return s.only.ModelURL(provider)
}

// ModelURL is the base of a provider's API for the agent's clients; empty: it is not served.
func (m *Member) ModelURL(provider string) string {
	s := m.side
	if s.llm == nil || m.Token() == "" || s.config.Models.APIs[provider] == nil {
		return ""
	}
	return s.URL() + llm.Path + "/" + llm.Key(m.Token()) + "/" + provider
}

// enterLLM finds the agent that a request is of, by the key in its address.
func (s *Sidecar) enterLLM(r *http.Request, key string) (*llm.Guest, error) {
	if signed := api.SignedOf(r.Context()); signed.Err != nil || signed.Key != "" {
		return s.enterSigned(r, key, signed)
	}
	tokens := []string{}
	if s.config.AnyAgent { // the agent is the one that the request names
		tokens = append(tokens, s.config.Token)
	}
	for _, m := range s.Members() {
		tokens = append(tokens, m.Token())
	}
	for _, token := range tokens {
		if token == "" || subtle.ConstantTimeCompare([]byte(llm.Key(token)), []byte(key)) != 1 {
			continue
		}
		return s.seatedLLM(r, face.Asking{Token: token, Name: r.Header.Get("Hence-Agent"), Acts: true})
	}
	return nil, api.Problemf(api.CodeUnauthorized, "the address has no key of an agent that is served here: take "+
		"OPENAI_BASE_URL or ANTHROPIC_BASE_URL as hence run sets it, or the address that the sidecar prints")
}

// enterSigned finds the agent whose key has signed a request.
func (s *Sidecar) enterSigned(r *http.Request, key string, signed api.Signed) (*llm.Guest, error) {
	switch {
	case signed.Err != nil:
		return nil, signed.Err
	case key != llm.SignedKey: // a request that two let in would be of two
		return nil, api.Problemf(api.CodeBadSignature, "the request is signed, and its address has a key, too: write "+
			"%s/%s/ and the provider", llm.Path, llm.SignedKey)
	}
	return s.seatedLLM(r, face.Asking{Key: signed.Key, Name: r.Header.Get("Hence-Agent"), Acts: true})
}

// seatedLLM is the guest whose request it is.
func (s *Sidecar) seatedLLM(r *http.Request, a face.Asking) (*llm.Guest, error) {
	if s.drain.Err() != nil {
		return nil, api.ErrStopped
	}
	seat, role, leave, err := s.seats.Enter(a)
	if leave == nil {
		leave = func() {}
	}
	switch {
	case err != nil:
	case role == face.RoleNone: // it has left meanwhile
		err = api.Problemf(api.CodeNotReady, "the agent is leaving")
	case role == face.RoleApprover: // else who approves could act as an agent
		err = api.Problemf(api.CodeApproverOnly, "the key is an approver's: it looks, approves and denies")
	}
	if err != nil {
		leave()
		return nil, err
	}
	s.mu.Lock()
	m := s.members[seat.Name]
	s.mu.Unlock()
	select {
	case <-seat.Opened:
	default:
		m = nil
	}
	if m == nil {
		leave()
		return nil, api.Problemf(api.CodeNotReady, "the agent's journal is not open yet: ask again")
	}
	guest := s.guestOf(m, seat.Name)
	guest.Who, guest.Leave = api.Told{Session: r.Header.Get("Hence-Session")}, leave
	return guest, nil
}

// guestOf is an agent as the face of models knows it.
func (s *Sidecar) guestOf(m *Member, name string) *llm.Guest {
	guest := &llm.Guest{Agent: m.agent, Vocabulary: vocabularyOf(m.config.Tools), Leave: func() {}}
	if s.mcp != nil {
		guest.Answered = func(session string, uses []api.ToolUse) { s.mcp.Answered(name, session, uses) }
	}
	return guest
}

// extractor asks what finds the shards that texts name; nil: there is none but the vocabulary.
func (s *Sidecar) extractor() func(context.Context, []byte, int) ([]byte, error) {
	if h := s.config.Models.Extractor; h.URL != "" || len(h.Command) > 0 {
		return h.Exchange
	}
	return nil
}

// vocabularyOf is how an agent's policy names shards.
func vocabularyOf(tools gate.Tools) *gate.Vocabulary {
	p, ok := tools.(interface{ Vocabulary() *gate.Vocabulary })
	if !ok {
		return nil
	}
	return p.Vocabulary()
}

// Models says which models' APIs are served.
type Models struct {
	APIs      map[string]*url.URL // addresses by the providers' names; empty: none is served
	Extractor Hook                // finds the shards that texts name, beside the vocabulary; none by default
}

// KnownModels are the providers whose shapes are known, with the addresses of their APIs.
func KnownModels() map[string]string { return llm.Defaults() }
