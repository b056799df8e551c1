package agent

import (
	"context"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/journal"
)

// giveUp ends a transaction with an answer that the log has not given.
func (s *Agent) giveUp(t *tx, o *sequencer.Outcome) {
	t.early = o
	s.charge(t.begin.Session, false)
	s.close(t, phaseOver)
	if err := s.delivery.Record(journal.RecordDecided, decisionRecord(t.id, o)); err != nil {
		s.log.Error("an abort is not in the journal", "tx", string(t.id), "cause", err)
	}
}

// abortInLog sends the abort that an answer has anticipated, with what the answer says, and does not wait for it.
func (s *Agent) abortInLog(t *tx, o *sequencer.Outcome, signer string) {
	in := t.intent(sequencer.IntentAbort, s.agent, signer)
	in.Abort = &sequencer.Abort{Code: o.Code, Detail: o.Detail, Scope: o.Scope, Seq: o.Moved.Seq, Writer: o.Moved.Tx}
	s.active[t.id] = t // until the view shows the abort
	started := s.loop.Go(func(ctx context.Context) { s.repeat(ctx, t, in) })
	if !started {
		s.log.Warn("an abort was not sent; the end of the lease aborts the transaction", "tx", string(t.id))
	}
}

// drop ends a transaction that was never sealed and that no client can continue.
func (s *Agent) drop(t *tx, why string) {
	if t.decided() || t.phase != phaseOpen {
		return
	}
	o := &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Code: sequencer.CodeAbortedByAgent, Detail: why}
	s.giveUp(t, o)
	if t.begun {
		s.abortInLog(t, o, "")
	}
}

// lostTo ends a branch because its group has chosen another one. The log finds that without a sidecar's report.
func lostTo(t *tx, was sequencer.Writer) *sequencer.Outcome {
	return &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Mode: t.begin.Mode, Moved: was,
		Code: sequencer.CodeLostBranch, Detail: "another branch of the group " + t.begin.Group + " was chosen"}
}

// tooOld ends a transaction that the log will not record any more: its base is below the floor.
func (s *Agent) tooOld(t *tx) {
	if t.decided() || t.phase == phaseLost {
		return
	}
	t.begun = false
	s.giveUp(t, &sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: t.id, Code: sequencer.CodeTooOld, Retryable: true,
		Floor:  s.view.Settings().Floor,
		Detail: "it was open for so long that the workspace has forgotten where it began", Mode: t.begin.Mode})
}

// charge counts what models' answers have cost a conversation until a decision. A reader's commit is several of these.
func (s *Agent) charge(talk string, committed bool) {
	if !strings.HasPrefix(talk, readerTalk) {
		s.chargeReader(talk, committed)
	}
}

func (s *Agent) chargeReader(talk string, committed bool) {
	state := api.StateAborted
	if committed {
		state = api.StateCommitted
	}
	s.metrics.Tokens(string(state), s.covered.Decide(talk))
}
