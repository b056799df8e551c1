package processor

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hence-dev/hence/topology/machine"
)

// TestEndIsBounded holds that a run ends although a processor waits for a broker that does not come back, and that
// what is not acknowledged is not given up sooner than it must.
func TestEndIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		var stuck sync.WaitGroup
		stuck.Go(func() { <-gone })
		start := time.Now()
		awaitEnd(&stuck, machine.Clock{}, func() { close(gone) })
		if took := time.Since(start); took != giveUpIn {
			t.Errorf("a stuck processor ended after %s, want %s", took, giveUpIn)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var quick sync.WaitGroup
		quick.Go(func() { <-time.After(giveUpIn - time.Second) })
		awaitEnd(&quick, machine.Clock{}, func() { t.Error("gave up on a processor that was about to end") })
	})
}
