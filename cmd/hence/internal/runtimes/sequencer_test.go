package runtimes_test

import (
	"slices"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
)

// TestLeaveTimes holds when effects leave: under the sequencer with the slowest before them, under a saga one after
// the other.
func TestLeaveTimes(t *testing.T) {
	lasting := []int{3, 1, 5, 2}
	if got := runtimes.LeaveTimes(lasting); !slices.Equal(got, []int{3, 3, 5, 5}) {
		t.Errorf("sequencer: %v", got)
	}
	if got := runtimes.SagaTimes(lasting); !slices.Equal(got, []int{3, 4, 9, 11}) {
		t.Errorf("saga: %v", got)
	}
}
