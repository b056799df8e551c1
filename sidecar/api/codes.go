package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/hence-dev/hence/sequencer"
)

// The codes of problems that are not codes of decisions.
const (
	CodeBadRequest       = "bad_request"
	CodeBadScope         = "bad_scope"
	CodeMediaType        = "unsupported_media_type"
	CodeTooLarge         = "too_large"
	CodeUnauthorized     = "unauthorized"
	CodeBadSignature     = "bad_signature"
	CodeSignatureTime    = "signature_time"
	CodeSignatureSeen    = "signature_seen"
	CodeWrongDigest      = "wrong_digest"
	CodeNoRoute          = "no_route"
	CodeMethod           = "method_not_allowed"
	CodeNotFound         = "not_found"
	CodeUnknownWorkspace = "unknown_workspace"
	CodeUnknownTx        = "unknown_tx"
	CodeOtherAgent       = "other_agent"
	CodeSessionLost      = "session_lost"
	CodeSeqFromFuture    = "seq_from_future"
	CodeForgotten        = "forgotten"
	CodeLimit            = "limit"
	CodeNotAborted       = "not_aborted"
	CodeAlreadyCommitted = "already_committed"
	CodeGaveUp           = "gave_up"
	CodeUndecided        = "undecided"
	CodeNotReady         = "not_ready"
	CodeChain            = "chain_broken"
	CodeJournal          = "journal_unavailable"
	CodeBacklog          = "backlog"
	CodeLog              = "log_unavailable"
	CodeStopping         = "stopping"
	CodeBusy             = "busy"
	CodeKeyInFlight      = "idempotency_key_in_flight"
	CodeKeyReused        = "idempotency_key_reused"
	CodeNothingOwed      = "nothing_owed"
	CodeCallsUnknown     = "calls_unknown"
	CodeInternal         = "internal"
	CodeNoPolicy         = "no_policy"
	CodeTool             = "tool_unusable"
	CodeToolUnreachable  = "tool_unreachable"
	CodeNotResidue       = "not_residue"
	CodeUnkeyed          = "no_key"
	CodeChangedTool      = "changed_tool"
	CodeResidueBusy      = "residue_busy"
	CodeSettlementTold   = "settlement_told"
	CodeOperatorOnly     = "operator_only"
	CodeApproverOnly     = "approver_only"
	CodeApprovalLate     = "approval_late"
	CodeUnknownType      = "unknown_type"
	CodePlanPassed       = "plan_passed"
	CodeNotMergeable     = "not_mergeable"
	CodeAnomaliesOff     = "anomalies_off"
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
	case CodeBadRequest:
		return kindOfProblem{http.StatusBadRequest, "the request is malformed", false, false}
	case CodeBadScope:
		return kindOfProblem{http.StatusBadRequest, "the scope is not valid", false, false}
	case CodeUnknownType:
		return kindOfProblem{http.StatusUnprocessableEntity, "nothing uses scopes of this type", false, false}
	case CodeSeqFromFuture:
		return kindOfProblem{http.StatusBadRequest, "the view has not reached the seq", true, true}
	case CodeMediaType:
		return kindOfProblem{http.StatusUnsupportedMediaType, "the body is of a kind that is not taken here", false, false}
	case CodeTooLarge:
		return kindOfProblem{http.StatusRequestEntityTooLarge, "the body or the content is too large", false, false}
	case CodeUnauthorized:
		return kindOfProblem{http.StatusUnauthorized, "a valid bearer token is required", false, false}
	case CodeBadSignature, CodeWrongDigest:
		return kindOfProblem{http.StatusUnauthorized, "the signature does not hold", false, true}
	case CodeSignatureTime, CodeSignatureSeen:
		return kindOfProblem{http.StatusUnauthorized, "the signature is of another time", true, true}
	case CodeNoRoute, CodeNotFound, CodeUnknownWorkspace, CodeUnknownTx:
		return kindOfProblem{http.StatusNotFound, "the resource does not exist", false, true}
	case CodeMethod:
		return kindOfProblem{http.StatusMethodNotAllowed, "the route does not accept this method", false, false}
	case CodeOtherAgent:
		return kindOfProblem{http.StatusForbidden, "the transaction belongs to another agent", false, false}
	case CodeSessionLost:
		return kindOfProblem{http.StatusGone, "the session has ended", true, false}
	case CodeForgotten:
		return kindOfProblem{http.StatusGone, "the record is no longer kept", false, false}
	case CodeKeyReused:
		return kindOfProblem{http.StatusUnprocessableEntity, "the Idempotency-Key belongs to another request", false, false}
	case CodeKeyInFlight:
		return kindOfProblem{http.StatusConflict, "a request with this Idempotency-Key is under way", true, true}
	case CodeLimit:
		return kindOfProblem{http.StatusTooManyRequests, "a limit is reached", true, true}
	case CodeNoPolicy, CodeTool:
		return kindOfProblem{http.StatusUnprocessableEntity, "the tool call is not valid", false, false}
	case CodeToolUnreachable:
		return kindOfProblem{http.StatusBadGateway, "the tool did not answer", true, false}
	case CodeAnomaliesOff:
		return kindOfProblem{http.StatusNotFound, "no processor looks for anomalies", false, true}
	case CodeOperatorOnly:
		return kindOfProblem{http.StatusForbidden, "an operator token is required", false, false}
	case CodeApproverOnly:
		return kindOfProblem{http.StatusForbidden, "approving takes an approver's token, and that token nothing else", false,
			false}
	case CodeApprovalLate:
		return kindOfProblem{http.StatusConflict, "the transaction was decided before this word", false, false}
	case CodeNotResidue, CodeUnkeyed, CodeChangedTool:
		return kindOfProblem{http.StatusConflict, "the state of the effect does not allow this", false, false}
	case CodeResidueBusy:
		return kindOfProblem{http.StatusConflict, "another request is working on this residue", true, true}
	case string(sequencer.CodeOwnTransaction), string(sequencer.CodeSibling), string(sequencer.CodeTouchWaiting),
		string(sequencer.CodeTouchBound):
		return kindOfProblem{http.StatusConflict, "the touch was refused; the transaction is still open", true, false}
	case string(sequencer.CodeNotCommitted):
		return kindOfProblem{http.StatusConflict, "only a committed transaction can be retracted", false, false}
	case string(sequencer.CodeNotWhileObserving):
		return kindOfProblem{http.StatusConflict, "observing and retracting exclude each other", true, false}
	case CodeNothingOwed, CodeCallsUnknown, CodeSettlementTold:
		return kindOfProblem{http.StatusConflict, "the state of the transaction does not allow this", false, false}
	case CodeNotMergeable:
		return kindOfProblem{http.StatusConflict, "the delta does not go with the content", false, false}
	case CodeNotAborted, CodeAlreadyCommitted, CodeGaveUp, CodePlanPassed:
		return kindOfProblem{http.StatusConflict, "the state of the transaction does not allow this", false, false}
	case CodeUndecided, CodeNotReady, CodeJournal, CodeBacklog, CodeLog, CodeStopping, CodeBusy:
		return kindOfProblem{http.StatusServiceUnavailable, "the sidecar cannot do this now", true, true}
	case CodeChain:
		return kindOfProblem{http.StatusServiceUnavailable, "the view cannot be trusted", false, true}
	case CodeInternal:
		return kindOfProblem{http.StatusInternalServerError, "the sidecar failed", false, true}
	case string(sequencer.CodeVersionMismatch):
		return kindOfProblem{http.StatusConflict, "the shard has another version", true, false}
	}
	return kindOfProblem{http.StatusConflict, "the transaction was refused", sequencer.Code(code).Retryable(), false}
}

// Problemf makes a problem of a code, with what a code's problems have in common.
func Problemf(code, format string, args ...any) *Problem {
	k := kindOf(code)
	return &Problem{
		Type: ProblemType(code), Title: k.title, Status: k.status, Code: code,
		Detail: fmt.Sprintf(format, args...), Retryable: k.retryable, SafeSameKey: k.sameKey,
	}
}

// Sentinel is an error that a request's answer has a code of its own for. Its values are constants: errors.Is compares
// their texts.
type Sentinel string

const (
	// ErrStopped is returned by waits when the sidecar stops.
	ErrStopped Sentinel = "sidecar: stopping"
	// ErrJournal is returned by reads and writes that the journal could not take; nothing was answered.
	ErrJournal Sentinel = "sidecar: the journal does not take records"
	// ErrBacklog refuses a read or a write because too many events wait to be published.
	ErrBacklog Sentinel = "too many events of this agent wait to be published"
	// ErrChain is what stops a view: a decision's chain hash is not the one that its predecessors lead to.
	ErrChain Sentinel = "sidecar: the chain of decisions is broken"
)

// Error is the error's text.
func (s Sentinel) Error() string { return string(s) }

// problem is what a request is answered that came to err, which wraps the sentinel.
func (s Sentinel) problem(err error) *Problem {
	switch s {
	case ErrStopped:
		return Problemf(CodeStopping, "the sidecar is stopping")
	case ErrJournal:
		return Problemf(CodeJournal, "nothing was answered: %v", err)
	case ErrBacklog:
		return Problemf(CodeBacklog, "nothing was answered: %v; check that the events topic takes records", err)
	case ErrChain:
		return Problemf(CodeChain, "%v: stop this sidecar and look at the log", err)
	}
	return Problemf(CodeInternal, "%v", err)
}

// AsProblem turns what a call came to into a problem.
func AsProblem(err error) *Problem {
	var p *Problem
	var large *http.MaxBytesError
	var known Sentinel
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &large):
		return Problemf(CodeTooLarge, "the body has more than the %d bytes that are allowed", large.Limit)
	case errors.Is(err, sequencer.ErrScope):
		return Problemf(CodeBadScope, "%v", err)
	case errors.As(err, &known):
		return known.problem(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Problemf(CodeUndecided, "the request ended before its outcome was known: ask again")
	}
	return Problemf(CodeInternal, "%v", err)
}
