// Package pause waits between tries: pauses that end with their context, and that double from a least to a longest
// one. There is no chance in them; what a refused agent waits is half by chance, and the sidecar's affair.
package pause

import (
	"context"
	"time"
)

// Sleep waits for d and returns nil; when ctx ends before, it returns why at once. A d of zero and less only asks ctx.
func Sleep(ctx context.Context, d time.Duration) error { return Until(ctx, d, nil) }

// Until is Sleep that is cut short when stop is closed: what comes after it is done at once.
func Until(ctx context.Context, d time.Duration, stop <-chan struct{}) error {
	if d <= 0 || ctx.Err() != nil { // a select over two that are ready would take either
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-stop:
		return context.Cause(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Doubling is a row of pauses: Least, twice that, and so on, none longer than Most. It is not safe for concurrent use.
type Doubling struct {
	Least, Most time.Duration
	made        int
}

// Next is the pause to make now.
func (d *Doubling) Next() time.Duration {
	d.made++
	return d.Nth(d.made)
}

// Reset lets the row begin again.
func (d *Doubling) Reset() { d.made = 0 }

// Nth is the n-th pause of the row, from 1.
func (d *Doubling) Nth(n int) time.Duration {
	next := d.Least
	for i := 1; i < n && next < d.Most; i++ {
		next *= 2
	}
	return min(next, d.Most)
}

// Retry calls try until it succeeds or ctx ends, and then returns why ctx ended. Each failure goes to complain before
// the pause after it.
func Retry(ctx context.Context, d Doubling, try func() error, complain func(error)) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil { // the failure is that of the context: nothing to complain of
			return context.Cause(ctx)
		}
		complain(err)
		if err := Sleep(ctx, d.Next()); err != nil {
			return err
		}
	}
}
