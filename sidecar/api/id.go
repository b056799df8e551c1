package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// EveryShard is the scope of all shards: also of reads that are too many to name.
const EveryShard = sequencer.Scope("shard:/")

// TxName makes the id of a transaction. It names the agent and the incarnation, so that a sidecar that has forgotten
// a transaction, or never knew it, still knows whose it is.
func TxName(agent string, inc sequencer.Seq, n uint64) sequencer.TxID {
	return sequencer.TxID(fmt.Sprintf("%s.%d.%d", agent, inc, n))
}

// OwnerOf is the agent, the incarnation and the number that an id names.
func OwnerOf(id sequencer.TxID) (agent string, inc sequencer.Seq, n uint64, ok bool) {
	rest, last := cutLast(string(id))
	agent, mid := cutLast(rest)
	i, ok1 := Decimal(mid)
	n, ok2 := Decimal(last)
	return agent, sequencer.Seq(i), n, ok1 && ok2
}

func cutLast(s string) (before, after string) {
	at := strings.LastIndexByte(s, '.')
	if at < 0 {
		return "", ""
	}
	return s[:at], s[at+1:]
}

// Decimal reads a number as it is printed: no sign, no leading zero.
func Decimal(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

// AddScope adds a scope to a list that may have it.
func AddScope(scopes []sequencer.Scope, s sequencer.Scope) []sequencer.Scope {
	if slices.Contains(scopes, s) {
		return scopes
	}
	return append(scopes, s)
}

// JoinIntent is the id of the intent of a join.
func JoinIntent(join string) string {
	in := sequencer.Intent{Kind: sequencer.IntentJoin, Join: &sequencer.Join{ID: join}}
	return in.ID()
}

// Meet reports whether two lists of scopes, of calls mostly, have something in common.
func Meet(a, b []sequencer.Scope) bool {
	return slices.ContainsFunc(a, func(s sequencer.Scope) bool { return slices.ContainsFunc(b, s.Overlaps) })
}

// DefaultMedia is the media type of a content that was written without one.
const DefaultMedia = "application/octet-stream"
