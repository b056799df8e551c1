package processor

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/IBM/sarama"
)

// endedSession is a session that ended for a cause; nothing else of it is asked.
type endedSession struct {
	sarama.ConsumerGroupSession
	ctx context.Context
}

func (s endedSession) Context() context.Context { return s.ctx }

type idleHandler struct{ sarama.ConsumerGroupHandler }

func (idleHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// Only a session that surely had its partitions to the end writes what it held back: after any other one an heir may
// have written more already.
func TestOnlyOwnersWriteAtTheEnd(t *testing.T) {
	for cause, ours := range map[error]bool{
		context.Canceled: true, sarama.ErrRebalanceInProgress: true, sarama.ErrSessionPartitionCountChanged: true,
		sarama.ErrSessionConsumeClaimExited: true,
		sarama.ErrUnknownMemberId:           false, sarama.ErrIllegalGeneration: false, sarama.ErrFencedInstancedId: false,
		sarama.ErrSessionHeartbeatFailed: false, sarama.ErrRebalanceTimedOut: false, sarama.ErrOutOfBrokers: false,
		io.EOF: false, errors.New("dial: connection refused"): false,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		var wrote bool
		h := &handler{inner: idleHandler{}, work: &processorWork{ready: func(error) {},
			released: func(graceful bool) { wrote = graceful }}}
		if err := h.Cleanup(endedSession{ctx: ctx}); err != nil || wrote != ours {
			t.Errorf("a session that ended with %q: it writes: %v, %v", cause, wrote, err)
		}
	}
}
