package topology

import "github.com/hence-dev/hence/sequencer"

// The least bytes that an item of a list takes: one for its array and one for each field that is always written.
const (
	wantBytes   = 3
	holdBytes   = 4
	readBytes   = 5
	effectBytes = 7
	reportBytes = 3
	shardBytes  = 6
	pinBytes    = 4
	doneBytes   = 4
	toolBytes   = 3
	wordBytes   = 1

	approvalBytes = 5
)

func walkIntent(w *walker, in *sequencer.Intent) {
	signs := w.decoding || in.Signer != ""
	outer := w.open(optional(18, signs), 18)
	number(w, &in.Kind)
	text(w, &in.Tx)
	number(w, &in.N)
	text(w, &in.Agent)
	number(w, &in.Incarnation)
	number(w, &in.Base)
	pointer(w, &in.Begin, walkBegin)
	pointer(w, &in.Touch, walkTouch)
	pointer(w, &in.Seal, walkSeal)
	pointer(w, &in.Abort, walkAbort)
	pointer(w, &in.Settle, walkSettle)
	pointer(w, &in.Join, walkJoin)
	pointer(w, &in.Select, walkSelect)
	pointer(w, &in.Register, walkRegister)
	pointer(w, &in.Verdict, walkVerdict)
	pointer(w, &in.Watermark, walkWatermark)
	pointer(w, &in.Rules, walkRules)
	pointer(w, &in.Tick, walkTick)
	if signs {
		text(w, &in.Signer)
	}
	w.close(outer)
}

func walkBegin(w *walker, b *sequencer.Begin) {
	talks := w.decoding || b.Session != ""
	outer := w.open(optional(7, talks), 7)
	number(w, &b.Mode)
	w.truth(&b.Observe)
	pointer(w, &b.Levels, number)
	number(w, &b.DeadlineTicks)
	text(w, &b.Group)
	text(w, &b.Predecessor)
	list(w, &b.May, wantBytes, walkWant)
	if talks {
		text(w, &b.Session)
	}
	w.close(outer)
}

func walkWant(w *walker, v *sequencer.Want) {
	outer := w.open(2, 2)
	text(w, &v.Scope)
	number(w, &v.Access)
	w.close(outer)
}

func walkHold(w *walker, h *sequencer.Hold) {
	outer := w.open(3, 3)
	text(w, &h.Scope)
	number(w, &h.Kind)
	number(w, &h.Access)
	w.close(outer)
}

func walkTouch(w *walker, t *sequencer.Touch) {
	outer := w.open(2, 2)
	list(w, &t.Wants, wantBytes, walkWant)
	number(w, &t.BoundTicks)
	w.close(outer)
}

func walkSeal(w *walker, s *sequencer.Seal) {
	outer := w.open(9, 9)
	list(w, &s.Reads, readBytes, walkRead)
	list(w, &s.Effects, effectBytes, walkEffect)
	list(w, &s.Touches, reportBytes, walkReport)
	list(w, &s.Shards, shardBytes, walkShardWrite)
	list(w, &s.Pins, pinBytes, walkPin)
	list(w, &s.ReadFrom, wordBytes, text)
	w.truth(&s.Hook)
	number(w, &s.VerdictTicks)
	pointer(w, &s.At, walkPlace)
	w.close(outer)
}

func walkRead(w *walker, r *sequencer.Read) {
	outer := w.open(4, 4)
	text(w, &r.Scope)
	number(w, &r.View)
	number(w, &r.Version)
	text(w, &r.Writer)
	w.close(outer)
}

func walkEffect(w *walker, e *sequencer.Effect) {
	approve := w.decoding || e.Approve || e.Args != sequencer.Hash{}
	absent := approve || e.Absent
	outer := w.open(optional(6, absent, approve, approve), 6)
	number(w, &e.Index)
	list(w, &e.Scopes, wordBytes, text)
	number(w, &e.Class)
	text(w, &e.Tool)
	text(w, &e.Key)
	w.truth(&e.Known)
	if absent {
		w.truth(&e.Absent)
	}
	if approve {
		w.truth(&e.Approve)
		w.hash(&e.Args)
	}
	w.close(outer)
}

func walkReport(w *walker, r *sequencer.TouchReport) {
	outer := w.open(2, 2)
	number(w, &r.N)
	w.truth(&r.Known)
	w.close(outer)
}

func walkShardWrite(w *walker, s *sequencer.ShardWrite) {
	merges := w.decoding || s.Op != sequencer.OpSet || s.Removes != 0
	restored := merges || s.Restored != 0
	outer := w.open(optional(7, restored, merges, merges), 5)
	text(w, &s.Scope)
	text(w, &s.Type)
	w.content(&s.Content)
	pointer(w, &s.Ref, walkRef)
	pointer(w, &s.Expect, walkExpect)
	pointer(w, &s.Former, walkFormer)
	w.truth(&s.Absent)
	if restored {
		number(w, &s.Restored)
	}
	if merges {
		number(w, &s.Op)
		number(w, &s.Removes)
	}
	w.close(outer)
}

func walkFormer(w *walker, f *sequencer.Former) {
	restored := w.decoding || f.Restored != 0
	outer := w.open(optional(5, restored), 5)
	number(w, &f.Version)
	number(w, &f.View)
	text(w, &f.Type)
	w.content(&f.Content)
	pointer(w, &f.Ref, walkRef)
	if restored {
		number(w, &f.Restored)
	}
	w.close(outer)
}

func walkRef(w *walker, r *sequencer.Ref) {
	chain := w.decoding || r.Chunks != 0 || r.Last != 0
	outer := w.open(optional(4, chain, chain), 4)
	signed(w, &r.Partition)
	signed(w, &r.Offset)
	signed(w, &r.Size)
	w.hash(&r.SHA256)
	if chain {
		number(w, &r.Chunks)
		signed(w, &r.Last)
	}
	w.close(outer)
}

func walkExpect(w *walker, e *sequencer.Expect) {
	outer := w.open(2, 2)
	number(w, &e.Version)
	number(w, &e.View)
	w.close(outer)
}

func walkPin(w *walker, p *sequencer.Pin) {
	outer := w.open(3, 3)
	text(w, &p.Server)
	text(w, &p.Name)
	text(w, &p.Signature)
	w.close(outer)
}

func walkPlace(w *walker, p *sequencer.Place) {
	outer := w.open(2, 2)
	signed(w, &p.Partition)
	signed(w, &p.Offset)
	w.close(outer)
}

func walkAbort(w *walker, a *sequencer.Abort) {
	said := w.decoding || a.Scope != "" || a.Seq != 0 || a.Writer != ""
	outer := w.open(optional(2, said, said, said), 2)
	text(w, &a.Code)
	text(w, &a.Detail)
	if said {
		text(w, &a.Scope)
		number(w, &a.Seq)
		text(w, &a.Writer)
	}
	w.close(outer)
}

func walkSettle(w *walker, s *sequencer.Settle) {
	outer := w.open(2, 2)
	list(w, &s.Effects, doneBytes, walkSettled)
	w.truth(&s.NoneElse)
	w.close(outer)
}

func walkSettled(w *walker, s *sequencer.Settled) {
	outer := w.open(3, 3)
	number(w, &s.Index)
	list(w, &s.Scopes, wordBytes, text)
	number(w, &s.Result)
	w.close(outer)
}

func walkJoin(w *walker, j *sequencer.Join) {
	outer := w.open(2, 1)
	text(w, &j.ID)
	number(w, &j.Logic)
	w.close(outer)
}

func walkSelect(w *walker, s *sequencer.Select) {
	outer := w.open(2, 2)
	text(w, &s.Group)
	text(w, &s.Winner)
	w.close(outer)
}

func walkRegister(w *walker, r *sequencer.Register) {
	outer := w.open(3, 3)
	text(w, &r.Server)
	number(w, &r.Generation)
	list(w, &r.Tools, toolBytes, walkTool)
	w.close(outer)
}

func walkTool(w *walker, t *sequencer.Tool) {
	outer := w.open(2, 2)
	text(w, &t.Name)
	text(w, &t.Signature)
	w.close(outer)
}

func walkVerdict(w *walker, v *sequencer.Verdict) {
	approvals := w.decoding || len(v.Approvals) > 0
	missing := approvals || v.Unavailable
	outer := w.open(optional(3, missing, approvals), 3)
	w.hash(&v.Footprint)
	w.truth(&v.Yes)
	text(w, &v.Reason)
	if missing {
		w.truth(&v.Unavailable)
	}
	if approvals {
		list(w, &v.Approvals, approvalBytes, walkApproval)
	}
	w.close(outer)
}

func walkApproval(w *walker, a *sequencer.Approval) {
	outer := w.open(4, 4)
	number(w, &a.Index)
	w.truth(&a.Yes)
	text(w, &a.By)
	w.hash(&a.Args)
	w.close(outer)
}

func walkWatermark(w *walker, m *sequencer.Watermark) {
	asks := w.decoding || m.Confirm != 0
	outer := w.open(optional(1, asks), 1)
	number(w, &m.Seq)
	if asks {
		number(w, &m.Confirm)
	}
	w.close(outer)
}

func walkTick(w *walker, t *sequencer.TickMark) {
	outer := w.open(2, 2)
	number(w, &t.N)
	number(w, &t.Weight)
	w.close(outer)
}

func walkRules(w *walker, r *sequencer.Rules) {
	approval := w.decoding || r.ApprovalTicks != 0
	undo := approval || r.HorizonCommits != 0 || r.HorizonTicks != 0
	bounds := undo || r.MaxSidecars != 0
	outer := w.open(optional(17, bounds, undo, undo, approval), 17)
	number(w, &r.Version)
	number(w, &r.Logic)
	w.truth(&r.Observe)
	number(w, &r.Levels)
	number(w, &r.HorizonSeqs)
	number(w, &r.CapSeqs)
	number(w, &r.LeaseTicks)
	number(w, &r.DeadlineTicks)
	number(w, &r.BoundTicks)
	number(w, &r.VerdictTicks)
	number(w, &r.MaxOpen)
	number(w, &r.MaxScopes)
	number(w, &r.MaxBytes)
	number(w, &r.MaxInline)
	number(w, &r.MaxContent)
	number(w, &r.MaxInlineTotal)
	number(w, &r.MaxKept)
	if bounds {
		number(w, &r.MaxSidecars)
	}
	if undo {
		number(w, &r.HorizonCommits)
		number(w, &r.HorizonTicks)
	}
	if approval {
		number(w, &r.ApprovalTicks)
	}
	w.close(outer)
}
