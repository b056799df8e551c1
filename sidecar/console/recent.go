package console

import (
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/feed"
)

// row is one decision as the lists of the page show it.
type row struct {
	Seq    sequencer.Seq   `json:"seq"`
	Kind   string          `json:"kind"`
	Tx     sequencer.TxID  `json:"tx,omitempty"`
	Agent  string          `json:"agent,omitempty"`
	Code   sequencer.Code  `json:"code,omitempty"`
	Would  sequencer.Code  `json:"would,omitempty"`
	Scope  sequencer.Scope `json:"scope,omitempty"` // where the code was found, else the first that was written
	Writes int             `json:"writes,omitempty"`
	Waits  sequencer.TxID  `json:"waits,omitempty"` // the first that it waits for
	Final  bool            `json:"final,omitempty"`
	Tick   sequencer.Tick  `json:"tick"`
	AtMs   int64           `json:"at_ms,omitempty"` // when the console saw it, unix ms; zero: it was not here yet

	quiet bool // not listed unless asked for
}

// kept is a remembered decision.
type kept struct {
	row     row
	outcome *sequencer.Outcome // without contents of shards
}

func rowOf(o *sequencer.Outcome, atMs int64) row {
	r := row{Seq: o.Seq, Kind: o.Kind.String(), Tx: o.Tx, Agent: o.Agent, Code: o.Code, Would: o.Would, Scope: o.Scope,
		Writes: len(o.Writes), Final: o.Final, Tick: o.Time, AtMs: atMs,
		quiet: feed.Quiet(o)}
	switch {
	case r.Scope != "":
	case len(o.Writes) > 0:
		r.Scope = o.Writes[0].Scope
	case len(o.Added) > 0:
		r.Scope = o.Added[0].Scope
	}
	if len(o.BlockedBy) > 0 {
		r.Waits = o.BlockedBy[0].Tx
	}
	return r
}

// slim is an outcome without the contents of shards: they may be large, and are not shown here.
func slim(o *sequencer.Outcome) *sequencer.Outcome {
	if len(o.Shards) == 0 {
		return o
	}
	thin := *o
	thin.Shards = make([]sequencer.ShardWrite, len(o.Shards))
	for i, s := range o.Shards {
		s.Content = nil
		if s.Former != nil {
			former := *s.Former
			former.Content = nil
			s.Former = &former
		}
		thin.Shards[i] = s
	}
	return &thin
}

// recent remembers the last decisions. Their seqs are contiguous.
type recent struct {
	rows []kept // a ring
	next sequencer.Seq
	size int
}

func newRecent(most int) *recent { return &recent{rows: make([]kept, 0, min(most, 1024)), size: most} }

// add remembers the decision after the last one. One that leaves a gap makes it begin again.
func (r *recent) add(k kept) {
	if k.row.Seq != r.next && r.next != 0 {
		r.rows = r.rows[:0]
	}
	if r.next = k.row.Seq + 1; len(r.rows) < r.size {
		r.rows = append(r.rows, k)
		if len(r.rows) == r.size { // from here on a seq's place is its remainder
			turned := make([]kept, r.size)
			for _, old := range r.rows {
				turned[uint64(old.row.Seq)%uint64(r.size)] = old
			}
			r.rows = turned
		}
		return
	}
	r.rows[uint64(k.row.Seq)%uint64(r.size)] = k
}

// first is the smallest seq that is remembered; next when there is none.
func (r *recent) first() sequencer.Seq { return r.next - sequencer.Seq(len(r.rows)) }

// get is the decision with a seq; nil: it is not remembered.
func (r *recent) get(seq sequencer.Seq) *kept {
	if seq < r.first() || seq >= r.next {
		return nil
	}
	if len(r.rows) == r.size {
		return &r.rows[uint64(seq)%uint64(r.size)]
	}
	return &r.rows[seq-r.first()]
}

// after are the rows after a seq, at most the newest so many, and of these not the quiet ones; skipped: how many more
// there were, remembered or not.
func (r *recent) after(seq sequencer.Seq, most int) (rows []row, skipped int) {
	if r.next == 0 || seq+1 >= r.next {
		return nil, 0
	}
	from := max(seq+1, r.first(), r.next-min(r.next, sequencer.Seq(most)))
	for s := from; s < r.next; s++ {
		if k := r.get(s); !k.row.quiet {
			rows = append(rows, k.row)
		}
	}
	return rows, int(from - seq - 1)
}
