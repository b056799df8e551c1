package loop

import (
	"sync"
	"testing"
)

// BenchmarkEnter is what a flow that finds the loop free pays for it, beside a mutex.
func BenchmarkEnter(b *testing.B) {
	n := 0
	b.Run("mutex", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			n++
			mu.Unlock()
		}
	})
	b.Run("loop", func(b *testing.B) {
		l := New(Options{})
		for b.Loop() {
			l.Run(func() { n++ })
		}
	})
}

// BenchmarkSched is one choice of a simulation of ten flows, with its change of goroutines.
func BenchmarkSched(b *testing.B) {
	s := NewSched(1, 1<<60)
	var err error
	left := b.N
	err = s.Run(func() {
		for range 10 {
			s.Go(func() {
				for ; left > 0; left-- {
					s.Wait(func() bool { return true })
				}
			})
		}
	})
	if err != nil {
		b.Fatal(err)
	}
}
