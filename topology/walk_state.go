package topology

import "github.com/hence-dev/hence/sequencer"

const (
	sidecarBytes   = 6
	serverBytes    = 5
	joinBytes      = 3
	txBytes        = 34
	answerBytes    = 5
	windowBytes    = 7
	catalogueBytes = 3
	groupBytes     = 4
	numberBytes    = 1

	pastReadBytes   = 3
	pastWriteBytes  = 3 + 1 + writerFields
	retractionBytes = 6
	groundBytes     = 4 + 1 + writerFields
	versionBytes    = 9
	tombBytes       = 4
)

func walkReplica(w *walker, r *sequencer.ReplicaState) {
	outer := w.open(3, 3)
	walkState(w, &r.State)
	signed(w, &r.Offset)
	list(w, &r.Outbox, outcomeBytes, walkOutcome)
	w.close(outer)
}

func walkState(w *walker, s *sequencer.State) {
	tombs := w.decoding || len(s.Tombs) > 0
	outer := w.open(optional(19, tombs), 16)
	text(w, &s.Workspace)
	number(w, &s.Seq)
	number(w, &s.Floor)
	number(w, &s.Horizon)
	number(w, &s.TickN)
	number(w, &s.Time)
	number(w, &s.LastEpoch)
	number(w, &s.LastOrder)
	w.hash(&s.Chain)
	walkRules(w, &s.Rules)
	list(w, &s.Sidecars, sidecarBytes, walkSidecar)
	list(w, &s.Joins, joinBytes, walkJoinState)
	list(w, &s.Txs, txBytes, walkTx)
	list(w, &s.Window, windowBytes, walkWindow)
	list(w, &s.Catalogues, catalogueBytes, walkCatalogue)
	list(w, &s.Groups, groupBytes, walkGroup)
	list(w, &s.Retractions, retractionBytes, walkRetraction)
	list(w, &s.Versions, versionBytes, walkVersion)
	number(w, &s.Unversioned)
	if tombs {
		list(w, &s.Tombs, tombBytes, walkTombstone)
	}
	w.close(outer)
}

func walkTombstone(w *walker, b *sequencer.Tombstone) {
	outer := w.open(3, 3)
	text(w, &b.Scope)
	number(w, &b.Seq)
	text(w, &b.Tx)
	w.close(outer)
}

func walkSidecar(w *walker, s *sequencer.SidecarState) {
	shut := w.decoding || s.Shut
	outer := w.open(optional(5, shut), 5)
	number(w, &s.Incarnation)
	text(w, &s.Agent)
	number(w, &s.Watermark)
	number(w, &s.Due)
	list(w, &s.Servers, serverBytes, walkServer)
	if shut {
		w.truth(&s.Shut)
	}
	w.close(outer)
}

func walkServer(w *walker, s *sequencer.ServerState) {
	since := w.decoding || s.Seq != 0
	outer := w.open(optional(4, since), 4)
	text(w, &s.Server)
	number(w, &s.Generation)
	w.truth(&s.Present)
	w.hash(&s.Catalogue)
	if since {
		number(w, &s.Seq)
	}
	w.close(outer)
}

func walkJoinState(w *walker, j *sequencer.JoinState) {
	outer := w.open(2, 2)
	text(w, &j.ID)
	number(w, &j.Seq)
	w.close(outer)
}

func walkTx(w *walker, t *sequencer.TxState) {
	signs := w.decoding || t.Signer != ""
	approval := signs || t.ApprovalDue != 0 || len(t.Approvals) > 0
	talks := approval || t.Session != ""
	since := talks || t.First != 0 || len(t.Since) > 0
	commit := since || t.Commit != 0
	shared := commit || len(t.Shared)+len(t.Sealed) > 0
	outer := w.open(optional(35, shared, shared, commit, since, since, talks, approval, approval, signs), 33)
	text(w, &t.ID)
	number(w, &t.Order)
	text(w, &t.Agent)
	number(w, &t.Incarnation)
	number(w, &t.Owner)
	number(w, &t.Base)
	number(w, &t.Mode)
	w.truth(&t.Observe)
	w.truth(&t.Free)
	pointer(w, &t.Levels, number)
	number(w, &t.Epoch)
	number(w, &t.Phase)
	number(w, &t.Due)
	text(w, &t.Would)
	text(w, &t.Group)
	list(w, &t.May, wantBytes, walkWant)
	list(w, &t.Answers, answerBytes, walkAnswer)
	list(w, &t.Grants, holdBytes, walkHold)
	list(w, &t.GrantedNs, numberBytes, number)
	pointer(w, &t.Waiting, walkWaiting)
	pointer(w, &t.Seal, walkSeal)
	w.hash(&t.Footprint)
	number(w, &t.VerdictDue)
	signed(w, &t.Verdict)
	text(w, &t.VerdictWhy)
	number(w, &t.SealLevels)
	list(w, &t.RestsOn, wordBytes, text)
	list(w, &t.Residue, wordBytes, text)
	list(w, &t.Gated, wordBytes, text)
	number(w, &t.Decision)
	text(w, &t.Code)
	w.truth(&t.Succeeded)
	w.truth(&t.Unclean)
	pointer(w, &t.Past, walkPast)
	text(w, &t.Retraction)
	if shared {
		list(w, &t.Shared, wordBytes, text)
		list(w, &t.Sealed, wordBytes, text)
	}
	if commit {
		number(w, &t.Commit)
	}
	if since {
		number(w, &t.First)
		list(w, &t.Since, numberBytes, number)
	}
	if talks {
		text(w, &t.Session)
	}
	if approval {
		number(w, &t.ApprovalDue)
		list(w, &t.Approvals, approvalBytes, walkApproval)
	}
	if signs {
		text(w, &t.Signer)
	}
	w.close(outer)
}

func walkPast(w *walker, p *sequencer.Past) {
	outer := w.open(5, 5)
	list(w, &p.Reads, pastReadBytes, walkPastRead)
	list(w, &p.From, wordBytes, text)
	list(w, &p.Writes, pastWriteBytes, walkPastWrite)
	w.truth(&p.Effects)
	number(w, &p.Undone)
	w.close(outer)
}

func walkPastRead(w *walker, r *sequencer.PastRead) {
	outer := w.open(2, 2)
	text(w, &r.Scope)
	number(w, &r.View)
	w.close(outer)
}

func walkPastWrite(w *walker, v *sequencer.PastWrite) {
	merges := w.decoding || v.Op != sequencer.OpSet
	outer := w.open(optional(3, merges), 3)
	text(w, &v.Scope)
	walkWriter(w, &v.Former)
	w.truth(&v.Shard)
	if merges {
		number(w, &v.Op)
	}
	w.close(outer)
}

func walkRetraction(w *walker, r *sequencer.RetractionState) {
	named := w.decoding || r.Named != nil
	outer := w.open(optional(5, named), 5)
	text(w, &r.Tx)
	number(w, &r.Seq)
	list(w, &r.Cone, wordBytes, text)
	list(w, &r.Ground, groundBytes, walkConeScope)
	number(w, &r.Turn)
	if named {
		pointer(w, &r.Named, walkBlocker)
	}
	w.close(outer)
}

func walkConeScope(w *walker, g *sequencer.ConeScope) {
	kept := w.decoding || g.Kept
	outer := w.open(optional(4, kept), 4)
	text(w, &g.Scope)
	walkWriter(w, &g.Writer)
	pointer(w, &g.Shard, walkVersion)
	w.truth(&g.Unknown)
	if kept {
		w.truth(&g.Kept)
	}
	w.close(outer)
}

func walkVersion(w *walker, v *sequencer.ShardVersion) {
	from := w.decoding || v.From != 0
	outer := w.open(optional(8, from), 8)
	text(w, &v.Scope)
	number(w, &v.Seq)
	text(w, &v.Tx)
	text(w, &v.Type)
	w.content(&v.Content)
	pointer(w, &v.Ref, walkRef)
	w.truth(&v.Absent)
	w.truth(&v.Unknown)
	if from {
		number(w, &v.From)
	}
	w.close(outer)
}

func walkAnswer(w *walker, a *sequencer.Answer) {
	outer := w.open(4, 4)
	number(w, &a.Kind)
	number(w, &a.Incarnation)
	number(w, &a.N)
	number(w, &a.Seq)
	w.close(outer)
}

func walkWaiting(w *walker, s *sequencer.WaitingState) {
	since := w.decoding || s.Seq != 0
	outer := w.open(optional(3, since), 3)
	number(w, &s.N)
	list(w, &s.Wants, wantBytes, walkWant)
	number(w, &s.Due)
	if since {
		number(w, &s.Seq)
	}
	w.close(outer)
}

func walkWindow(w *walker, s *sequencer.WindowState) {
	by := w.decoding || s.By != ""
	outer := w.open(optional(3, by), 3)
	text(w, &s.Scope)
	number(w, &s.Seq)
	walkWriter(w, &s.Writer)
	if by {
		text(w, &s.By)
	}
	w.close(outer)
}

func walkCatalogue(w *walker, c *sequencer.Catalogue) {
	outer := w.open(2, 2)
	w.hash(&c.Hash)
	list(w, &c.Tools, toolBytes, walkTool)
	w.close(outer)
}

func walkGroup(w *walker, g *sequencer.GroupState) {
	outer := w.open(3, 3)
	text(w, &g.ID)
	text(w, &g.Winner)
	number(w, &g.Seq)
	w.close(outer)
}
