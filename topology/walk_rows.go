package topology

import "github.com/hence-dev/hence/sequencer"

const (
	shardRowBytes    = 6 + writerFields
	openEpochBytes   = 4
	edgeBytes        = 5
	closureRowFields = 14
	closureRowLeast  = 10 // of the first release
	effectSeenBytes  = 4
	eventLeast       = 17 // fields, of the first release

	formerContentFields = 5
	standingFields      = 8
)

func walkEvent(w *walker, e *Event) {
	chunk := w.decoding || e.Chunk != nil
	planned := chunk || e.Plan != nil
	talks := planned || e.Session != ""
	outer := w.open(optional(18, talks, planned, chunk), eventLeast)
	number(w, &e.Kind)
	text(w, &e.Workspace)
	text(w, &e.Tx)
	text(w, &e.Agent)
	number(w, &e.Incarnation)
	number(w, &e.Index)
	signed(w, &e.AtMs)
	text(w, &e.Scope)
	number(w, &e.View)
	number(w, &e.Version)
	text(w, &e.Writer)
	text(w, &e.MediaType)
	w.content(&e.Content)
	signed(w, &e.Size)
	w.hash(&e.SHA256)
	pointer(w, &e.Seal, walkSeal)
	text(w, &e.Traceparent)
	pointer(w, &e.Effect, walkEffectText)
	if talks {
		text(w, &e.Session)
	}
	if planned {
		pointer(w, &e.Plan, walkPlan)
	}
	if chunk {
		pointer(w, &e.Chunk, walkChunk)
	}
	w.close(outer)
}

func walkChunk(w *walker, c *Chunk) {
	outer := w.open(2, 2)
	signed(w, &c.At)
	w.hash(&c.Of)
	w.close(outer)
}

// maxPlanned bounds the calls of a plan.
const maxPlanned = 1024

func walkPlan(w *walker, p *Plan) {
	outer := w.open(2, 2)
	number(w, &p.First)
	shortList(w, &p.Calls, maxPlanned, wordBytes, text)
	w.close(outer)
}

func walkShardRow(w *walker, s *ShardRow) {
	merges := w.decoding || len(s.Writes) > 0
	counted := merges || s.Count.says()
	held := counted || s.Held
	restored := held || s.Restored != 0
	outer := w.open(optional(6, restored, held, counted, counted, merges), 6)
	text(w, &s.Scope)
	number(w, &s.Version)
	walkWriter(w, &s.Writer)
	text(w, &s.Type)
	w.content(&s.Content)
	pointer(w, &s.Ref, walkRef)
	if restored {
		number(w, &s.Restored)
	}
	if held {
		w.truth(&s.Held)
	}
	if counted {
		walkWriteCount(w, &s.Count)
	}
	if merges {
		list(w, &s.Writes, 1+standingFields, walkStanding)
	}
	w.close(outer)
}

func walkStanding(w *walker, s *sequencer.Standing) {
	outer := w.open(standingFields, standingFields)
	number(w, &s.Seq)
	number(w, &s.Op)
	text(w, &s.Type)
	w.content(&s.Content)
	pointer(w, &s.Ref, walkRef)
	w.truth(&s.Absent)
	w.truth(&s.Missing)
	w.truth(&s.Folded)
	w.close(outer)
}

func walkFormerContent(w *walker, c *FormerContent) {
	outer := w.open(formerContentFields, formerContentFields)
	number(w, &c.Version)
	number(w, &c.Carrier)
	text(w, &c.Type)
	w.content(&c.Content)
	pointer(w, &c.Ref, walkRef)
	w.close(outer)
}

func walkSnapshot(w *walker, s *Snapshot) {
	types := w.decoding || len(s.Types) > 0
	outer := w.open(optional(7, types), 7)
	text(w, &s.Workspace)
	number(w, &s.Seq)
	number(w, &s.Through)
	w.hash(&s.Chain)
	number(w, &s.Time)
	number(w, &s.Floor)
	list(w, &s.Shards, shardRowBytes, walkShardRow)
	if types {
		list(w, &s.Types, wordBytes, text)
	}
	w.close(outer)
}

func walkFrontierRow(w *walker, r *FrontierRow) {
	counted := w.decoding || r.Count.says()
	former := counted || len(r.Former) > 0
	outer := w.open(optional(11, former, counted, counted), 11)
	text(w, &r.Workspace)
	text(w, &r.Scope)
	number(w, &r.Seq)
	pointer(w, &r.Shard, walkShardRow)
	number(w, &r.Version)
	walkWriter(w, &r.Writer)
	list(w, &r.Open, openEpochBytes, walkOpenEpoch)
	number(w, &r.Frontier)
	w.hash(&r.Chain)
	number(w, &r.Time)
	number(w, &r.Floor)
	if former {
		list(w, &r.Former, 1+formerContentFields, walkFormerContent)
	}
	if counted {
		walkWriteCount(w, &r.Count)
	}
	w.close(outer)
}

// walkWriteCount walks the two fields that a count takes in its row.
func walkWriteCount(w *walker, c *WriteCount) {
	number(w, &c.Writes)
	list(w, &c.Counted, wordBytes, number)
}

func walkOpenEpoch(w *walker, o *OpenEpoch) {
	outer := w.open(3, 3)
	number(w, &o.Epoch)
	text(w, &o.Tx)
	number(w, &o.Since)
	w.close(outer)
}

func walkEdge(w *walker, e *ClosureEdge) {
	outer := w.open(4, 4)
	text(w, &e.Scope)
	text(w, &e.Writer)
	number(w, &e.Version)
	number(w, &e.View)
	w.close(outer)
}

func walkClosureRow(w *walker, r *ClosureRow) {
	outer := w.open(closureRowFields, closureRowLeast)
	text(w, &r.Workspace)
	text(w, &r.Tx)
	text(w, &r.Agent)
	text(w, &r.Status)
	text(w, &r.Code)
	number(w, &r.Seq)
	list(w, &r.Edges, edgeBytes, walkEdge)
	list(w, &r.RestsOn, wordBytes, text)
	list(w, &r.Writes, wordBytes, text)
	w.truth(&r.Scar)
	w.truth(&r.Final)
	pointer(w, &r.Events, walkEventSpan)
	list(w, &r.Effects, effectSeenBytes, walkEffectSeen)
	text(w, &r.Retraction)
	w.close(outer)
}

func walkEventSpan(w *walker, s *EventSpan) {
	outer := w.open(1, 1)
	signed(w, &s.First)
	w.close(outer)
}

func walkEffectSeen(w *walker, e *EffectSeen) {
	outer := w.open(3, 3)
	number(w, &e.Index)
	number(w, &e.Class)
	number(w, &e.Event)
	w.close(outer)
}

func walkClosure(w *walker, c *Closure) {
	outer := w.open(4, 4)
	limit := int64(c.Limit)
	text(w, &c.Tx)
	list(w, &c.Rows, 1+closureRowLeast, walkClosureRow)
	w.truth(&c.Truncated)
	signed(w, &limit)
	c.Limit = int(limit)
	w.close(outer)
}

func walkScopeMove(w *walker, m *ScopeMove) {
	outer := w.open(15, 15)
	text(w, &m.Workspace)
	text(w, &m.Scope)
	number(w, &m.Seq)
	number(w, &m.Kind)
	text(w, &m.Tx)
	text(w, &m.Agent)
	number(w, &m.Epoch)
	list(w, &m.Added, holdBytes, walkHold)
	list(w, &m.Ended, holdBytes, walkHold)
	pointer(w, &m.Write, walkWrite)
	pointer(w, &m.Shard, walkShardWrite)
	w.hash(&m.Chain)
	number(w, &m.Time)
	number(w, &m.Floor)
	number(w, &m.Scopes)
	w.close(outer)
}
