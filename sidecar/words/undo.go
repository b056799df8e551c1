package words

import (
	"fmt"
	"math"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// NoUndo says of a committed transaction that no retraction takes it any more.
const NoUndo = "It can no longer be taken back: it is beyond the workspace's undo horizon."

// takenBack says of a committed transaction that a retraction took it back, or does so now.
func takenBack(d *api.Decision) string {
	var with string
	if d.Retraction != "" && d.Retraction != d.Tx {
		with = " with the retraction of " + d.Retraction
	}
	switch {
	case d.UndoneSeq != 0:
		return fmt.Sprintf(" It was taken back at seq %d%s.", d.UndoneSeq, with)
	case d.Undone:
		return " It was taken back" + with + "."
	case d.Retraction != "":
		return " It is being taken back" + with + "."
	}
	return ""
}

// leastRate is how many seconds a rate is taken from at least: that of a burst says nothing.
const leastRate = 60

// Undo is how long a transaction can still be taken back; nil: no longer, or the workspace's logic has no such bounds.
func Undo(c *topology.Cone) *api.Undo {
	left := c.Undo
	if left == nil {
		return nil
	}
	u := &api.Undo{Through: uint64(c.Through), CommitsLeft: left.Commits, BytesLeft: left.Bytes,
		SecondsLeft: uint64(left.Ticks) / 4, Commits: left.Made, RateSeconds: uint64(left.Span) / 4}
	// At the rate of the span: the time until so much of what was used in it is used again.
	after := func(left, used uint64) float64 {
		if used == 0 {
			return math.Inf(1)
		}
		return float64(left) / float64(used) * max(1, float64(u.RateSeconds))
	}
	u.Nearest = "time"
	first := float64(u.SecondsLeft)
	for _, bound := range []struct {
		name  string
		after float64
	}{{"commits", after(left.Commits, left.Made)}, {"bytes", after(left.Bytes, left.Kept)}} {
		if bound.after < first {
			u.Nearest, first = bound.name, bound.after
		}
	}
	if u.RateSeconds >= leastRate {
		u.EstimateSeconds = uint64(first)
	}
	u.Sentence = fmt.Sprintf("It can be taken back for %s, %s, or %s of the log's time, whichever ends first. ",
		counted(left.Commits, "more commit"), roughly(left.Bytes), lasting(u.SecondsLeft))
	switch {
	case u.Nearest == "time":
		u.Sentence += "The nearest bound is the time."
	case u.RateSeconds < leastRate:
		u.Sentence += fmt.Sprintf("The nearest bound is the %s; too little has happened for an estimate of when.", u.Nearest)
	default:
		u.Sentence += fmt.Sprintf("The nearest bound is the %s: in about %s at the rate of the last %s (%s), an estimate.",
			u.Nearest, lasting(u.EstimateSeconds), lasting(max(1, u.RateSeconds)), counted(left.Made, "commit"))
	}
	return u
}

func counted(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// roughly is a number of bytes of what the workspace may remember.
func roughly(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d more bytes to remember", n)
	}
	return fmt.Sprintf("%d KiB more to remember", n>>10)
}

// lasting is a time with the unit that suits it.
func lasting(seconds uint64) string {
	for _, unit := range []struct {
		seconds uint64
		name    string
	}{{24 * 3600, "day"}, {3600, "hour"}, {60, "minute"}} {
		if seconds >= 2*unit.seconds {
			return counted((seconds+unit.seconds/2)/unit.seconds, unit.name)
		}
	}
	return counted(seconds, "second")
}
