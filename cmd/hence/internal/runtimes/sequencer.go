package runtimes

// sequencer holds an effect that is complete until all that were issued before it are complete too: they leave in the
// order of issue, for every schedule, and none is lost. It excludes A6 and lets through A1, A2 and A3. Effects run
// side by side, so it is for those that can be held back once they ran.
type sequencer struct{ passive }

func (sequencer) leave(o *Op, _ int) (leaving []int, ok bool) { return inOrder(o), true }

// inOrder are the effects that can leave: from the first that has not left, as long as they are complete.
func inOrder(o *Op) (leaving []int) {
	for k := len(o.left); k < len(o.effects) && o.effects[k].complete; k++ {
		leaving = append(leaving, k)
	}
	return leaving
}

// saga is the strict sequencer: effect k+1 begins when effect k is done, and what is taken back is compensated in the
// reverse order. To the world that is the same order; it costs the sum of the durations where the sequencer costs the
// longest. An effect that a schedule completes out of its turn has not begun: it is done in its turn.
type saga struct{ passive }

func (saga) leave(o *Op, _ int) (leaving []int, ok bool) { return inOrder(o), true }

// LeaveTimes is when effects leave, given how long each runs from a common start: held until those before it are
// complete.
func LeaveTimes(lasting []int) []int {
	times := make([]int, len(lasting))
	latest := 0
	for k, t := range lasting {
		latest = max(latest, t)
		times[k] = latest
	}
	return times
}

// SagaTimes is when they leave where each begins after the one before it.
func SagaTimes(lasting []int) []int {
	times := make([]int, len(lasting))
	sum := 0
	for k, t := range lasting {
		sum += t
		times[k] = sum
	}
	return times
}
