package agent

import (
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// find is the transaction that a route names.
func (s *Agent) find(id sequencer.TxID) (*tx, error) {
	agent, inc, _, ok := api.OwnerOf(id)
	if !ok {
		return nil, api.Problemf(api.CodeUnknownTx, "%.100q is not the id of a transaction", string(id))
	}
	if agent != s.agent {
		return nil, api.Problemf(api.CodeOtherAgent, "%s is a transaction of agent %s; this is the sidecar of %s", id, agent, s.agent)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.txs[id]
	switch {
	case t != nil && t.fate == fateUnread:
		return nil, api.Problemf(api.CodeNotReady, "how %s ended is not known yet: the sidecar was started again and has not read "+
			"the log so far; ask again", id)
	case t != nil && t.fate == fateGone:
		return nil, api.Problemf(api.CodeForgotten, "%s was sealed, and how it ended is no longer in the log: look at what it "+
			"would have written, or GET /v1/tx/%s/closure, before its work is begun anew", id, id)
	case t != nil:
		return t, nil
	case inc == s.incarnation && s.knew(id):
		return nil, api.Problemf(api.CodeForgotten, "%s is over and no longer remembered", id)
	case inc < s.incarnation, s.incarnation == 0:
		return nil, api.Problemf(api.CodeSessionLost, "the session of %s has ended and nothing is known of it here any more. "+
			"If it was sealed, GET /v1/tx/%s/closure says how it ended; else begin a new transaction and read again", id, id)
	}
	return nil, api.Problemf(api.CodeUnknownTx, "there is no transaction %s", id)
}

// knew: the id was given out in this session.
func (s *Agent) knew(id sequencer.TxID) bool {
	_, _, n, ok := api.OwnerOf(id)
	return ok && n >= 1 && n <= s.count
}
