package topology

const (
	liveTxFields      = 19
	liveSidecarFields = 6
	liveWaitBytes     = 4
	liveHoldBytes     = 3
)

func walkLive(w *walker, l *Live) {
	outer := w.open(8, 8)
	text(w, &l.Workspace)
	number(w, &l.Seq)
	number(w, &l.Tick)
	number(w, &l.Floor)
	walkLiveCounts(w, &l.Counts)
	list(w, &l.Transactions, 1+liveTxFields, walkLiveTx)
	list(w, &l.Sidecars, 1+liveSidecarFields, walkLiveSidecar)
	w.truth(&l.Truncated)
	w.close(outer)
}

func walkLiveCounts(w *walker, c *LiveCounts) {
	outer := w.open(8, 8)
	for _, n := range []*uint32{&c.Open, &c.Waiting, &c.Sealed, &c.Decided, &c.Settling, &c.Orphans, &c.Sidecars,
		&c.Retractions} {
		number(w, n)
	}
	w.close(outer)
}

func walkLiveTx(w *walker, t *LiveTx) {
	approvals := w.decoding || len(t.Approvals) > 0
	outer := w.open(optional(liveTxFields, approvals), liveTxFields)
	text(w, &t.Tx)
	text(w, &t.Agent)
	text(w, &t.State)
	w.truth(&t.Committed)
	text(w, &t.Mode)
	number(w, &t.Epoch)
	number(w, &t.Base)
	number(w, &t.Decision)
	number(w, &t.BeganTick)
	number(w, &t.DeadlineTick)
	list(w, &t.Waits, liveWaitBytes, walkLiveWait)
	list(w, &t.Granted, liveHoldBytes, walkLiveHold)
	list(w, &t.Claimed, liveHoldBytes, walkLiveHold)
	number(w, &t.Holds)
	number(w, &t.Gated)
	text(w, &t.Code)
	text(w, &t.Group)
	number(w, &t.Owner)
	text(w, &t.Retraction)
	if approvals {
		list(w, &t.Approvals, approvalBytes, walkApproval)
	}
	w.close(outer)
}

func walkLiveWait(w *walker, l *LiveWait) {
	outer := w.open(3, 3)
	text(w, &l.Tx)
	text(w, &l.Scope)
	text(w, &l.Why)
	w.close(outer)
}

func walkLiveHold(w *walker, h *LiveHold) {
	outer := w.open(2, 2)
	text(w, &h.Scope)
	text(w, &h.Access)
	w.close(outer)
}

func walkLiveSidecar(w *walker, s *LiveSidecar) {
	outer := w.open(liveSidecarFields, liveSidecarFields)
	text(w, &s.Agent)
	number(w, &s.Incarnation)
	number(w, &s.LeaseLeft)
	number(w, &s.Watermark)
	number(w, &s.Lag)
	number(w, &s.Servers)
	w.close(outer)
}

// EncodeLive writes the answer to a question for what goes on.
func EncodeLive(v *Live) ([]byte, error) { return replyCodec("live", walkLive).encode(v) }

// DecodeLive reads it.
func DecodeLive(b []byte) (*Live, error) { return replyCodec("live", walkLive).decode(b) }
