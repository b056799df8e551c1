package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/words"
)

// The codes of problems that are not codes of decisions.
const (
	codeBadRequest       = "bad_request"
	codeBadScope         = "bad_scope"
	codeMediaType        = "unsupported_media_type"
	codeTooLarge         = "too_large"
	codeUnauthorized     = "unauthorized"
	codeNoRoute          = "no_route"
	codeMethod           = "method_not_allowed"
	codeNotFound         = "not_found"
	codeUnknownWorkspace = "unknown_workspace"
	codeUnknownTx        = "unknown_tx"
	codeOtherAgent       = "other_agent"
	codeSessionLost      = "session_lost"
	codeSeqFromFuture    = "seq_from_future"
	codeForgotten        = "forgotten"
	codeLimit            = "limit"
	codeNotAborted       = "not_aborted"
	codeAlreadyCommitted = "already_committed"
	codeGaveUp           = "gave_up"
	codeUndecided        = "undecided"
	codeNotReady         = "not_ready"
	codeChain            = "chain_broken"
	codeJournal          = "journal_unavailable"
	codeBacklog          = "backlog"
	codeLog              = "log_unavailable"
	codeStopping         = "stopping"
	codeBusy             = "busy"
	codeKeyInFlight      = "idempotency_key_in_flight"
	codeKeyReused        = "idempotency_key_reused"
	codeNothingOwed      = "nothing_owed"
	codeCallsUnknown     = "calls_unknown"
	codeInternal         = "internal"
	codeNoPolicy         = "no_policy"
	codeTool             = "tool_unusable"
	codeToolUnreachable  = "tool_unreachable"
	codeNotResidue       = "not_residue"
	codeUnkeyed          = "no_key"
	codeChangedTool      = "changed_tool"
	codeResidueBusy      = "residue_busy"
	codeSettlementTold   = "settlement_told"
	codeOperatorOnly     = "operator_only"
	codeUnknownType      = "unknown_type"
)

// kindOfProblem is what every problem of one code has in common.
type kindOfProblem struct {
	status    int
	title     string
	retryable bool // the same request, or a further attempt of the transaction, can succeed
	sameKey   bool // and may carry the same Idempotency-Key
}

// kindOf looks a problem's code up. Codes of decisions that are not listed are conflicts.
func kindOf(code string) kindOfProblem {
	switch code {
	case codeBadRequest:
		return kindOfProblem{http.StatusBadRequest, "the request cannot be read", false, false}
	case codeBadScope:
		return kindOfProblem{http.StatusBadRequest, "the scope cannot be used", false, false}
	case codeUnknownType:
		return kindOfProblem{http.StatusUnprocessableEntity, "nothing uses scopes of this type", false, false}
	case codeSeqFromFuture:
		return kindOfProblem{http.StatusBadRequest, "the seq has not been reached", true, true}
	case codeMediaType:
		return kindOfProblem{http.StatusUnsupportedMediaType, "the body is not JSON", false, false}
	case codeTooLarge:
		return kindOfProblem{http.StatusRequestEntityTooLarge, "the body or the content is too large", false, false}
	case codeUnauthorized:
		return kindOfProblem{http.StatusUnauthorized, "a valid bearer token is needed", false, false}
	case codeNoRoute, codeNotFound, codeUnknownWorkspace, codeUnknownTx:
		return kindOfProblem{http.StatusNotFound, "there is nothing here", false, true}
	case codeMethod:
		return kindOfProblem{http.StatusMethodNotAllowed, "the route takes other methods", false, false}
	case codeOtherAgent:
		return kindOfProblem{http.StatusForbidden, "the transaction is another agent's", false, false}
	case codeSessionLost:
		return kindOfProblem{http.StatusGone, "the session has ended", true, false}
	case codeForgotten:
		return kindOfProblem{http.StatusGone, "it is no longer remembered", false, false}
	case codeKeyReused:
		return kindOfProblem{http.StatusUnprocessableEntity, "the key is another request's", false, false}
	case codeKeyInFlight:
		return kindOfProblem{http.StatusConflict, "a request with this Idempotency-Key is under way", true, true}
	case codeLimit:
		return kindOfProblem{http.StatusTooManyRequests, "a limit is reached", true, true}
	case codeNoPolicy, codeTool:
		return kindOfProblem{http.StatusUnprocessableEntity, "the tool cannot be called like this", false, false}
	case codeToolUnreachable:
		return kindOfProblem{http.StatusBadGateway, "the tool did not answer", true, false}
	case codeOperatorOnly:
		return kindOfProblem{http.StatusForbidden, "an operator's token is needed", false, false}
	case codeNotResidue, codeUnkeyed, codeChangedTool:
		return kindOfProblem{http.StatusConflict, "the effect is not in a state for this", false, false}
	case codeResidueBusy:
		return kindOfProblem{http.StatusConflict, "another request is dealing with the residue", true, true}
	case string(sequencer.CodeOwnTransaction), string(sequencer.CodeSibling), string(sequencer.CodeTouchWaiting),
		string(sequencer.CodeTouchBound):
		return kindOfProblem{http.StatusConflict, "the touch was refused; the transaction is still open", true, false}
	case string(sequencer.CodeNotCommitted):
		return kindOfProblem{http.StatusConflict, "only a committed transaction can be retracted", false, false}
	case string(sequencer.CodeNotWhileObserving):
		return kindOfProblem{http.StatusConflict, "observing and retracting exclude each other", true, false}
	case codeNothingOwed, codeCallsUnknown, codeSettlementTold:
		return kindOfProblem{http.StatusConflict, "the transaction is not in a state for this", false, false}
	case codeNotAborted, codeAlreadyCommitted, codeGaveUp:
		return kindOfProblem{http.StatusConflict, "the transaction is not in a state for this", false, false}
	case codeUndecided, codeNotReady, codeJournal, codeBacklog, codeLog, codeStopping, codeBusy:
		return kindOfProblem{http.StatusServiceUnavailable, "it cannot be done right now", true, true}
	case codeChain:
		return kindOfProblem{http.StatusServiceUnavailable, "the view cannot be trusted", false, true}
	case codeInternal:
		return kindOfProblem{http.StatusInternalServerError, "the sidecar failed", false, true}
	case string(sequencer.CodeVersionMismatch):
		return kindOfProblem{http.StatusConflict, "the shard has another version", true, false}
	}
	return kindOfProblem{http.StatusConflict, "the transaction was refused", sequencer.Code(code).Retryable(), false}
}

// problem makes a problem of a code.
func problem(code, format string, args ...any) *api.Problem {
	k := kindOf(code)
	return &api.Problem{
		Type: api.ProblemType(code), Title: k.title, Status: k.status, Code: code,
		Detail: fmt.Sprintf(format, args...), Retryable: k.retryable, SafeSameKey: k.sameKey,
	}
}

// refusal is the problem that says how a transaction ended.
func refusal(d *api.Decision) *api.Problem {
	p := problem(d.Code, "%s", words.Sentence(d))
	p.Retryable = d.Retryable && !d.GiveUp
	p.ReRead, p.Scope, p.MovedSeq, p.MovedBy = d.ReRead, d.Scope, d.MovedSeq, d.MovedBy
	p.By, p.Tool, p.Floor = d.By, d.Tool, d.Floor
	p.Overtaken, p.Decision = d.Overtaken, d
	return p
}

// notTaken is the problem of an intent that the log has refused: it says nothing of how a transaction stands.
func notTaken(o *sequencer.Outcome, format string, args ...any) *api.Problem {
	p := problem(string(o.Code), "%s: %s", fmt.Sprintf(format, args...), o.Detail)
	p.Retryable = o.Retryable
	return p
}

// asProblem turns what a call came to into a problem.
func asProblem(err error) *api.Problem {
	var p *api.Problem
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &large):
		return problem(codeTooLarge, "the body has more than the %d bytes that are allowed", large.Limit)
	case errors.Is(err, sequencer.ErrScope):
		return problem(codeBadScope, "%v", err)
	case errors.Is(err, ErrChain):
		return problem(codeChain, "%v: stop this sidecar and look at the log", err)
	case errors.Is(err, ErrJournal):
		return problem(codeJournal, "nothing was answered: %v", err)
	case errors.Is(err, errBacklog):
		return problem(codeBacklog, "nothing was answered: %v; check that the events topic takes records", err)
	case errors.Is(err, ErrStopped):
		return problem(codeStopping, "the sidecar is stopping")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return problem(codeUndecided, "it took longer than this request may wait: ask again")
	}
	return problem(codeInternal, "%v", err)
}
