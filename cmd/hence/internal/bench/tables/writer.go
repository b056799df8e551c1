package tables

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// writer commits to a shard of its own, each time all that it has written before and one word more.
type writer struct {
	bus *bus
	key string

	mu       sync.Mutex
	text     string
	accepted int           // in a row, as the shard's version counts
	refused  int           // answered, and not accepted
	broken   int           // not answered
	longest  time.Duration // that a commit was waited for
}

// write commits once. What is not answered may be written all the same: the shard is read again then.
func (w *writer) write(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := time.Now()
	text := fmt.Sprint(w.text, " ", w.accepted)
	ok, err := w.bus.commit(ctx, w.key, w.key, text, uint64(w.accepted))
	w.longest = max(w.longest, time.Since(began))
	switch {
	case err != nil:
		w.broken++
		if now, err := w.bus.get(ctx, w.key, ""); err == nil && now.Content == text {
			w.text, w.accepted = text, w.accepted+1
		}
	case ok:
		w.text, w.accepted = text, w.accepted+1
	default:
		w.refused++
	}
}

// writersSum adds up writers.
func writersSum(all []*writer) (accepted, refused, broken int, longest time.Duration) {
	for _, w := range all {
		accepted, refused, broken = accepted+w.accepted, refused+w.refused, broken+w.broken
		longest = max(longest, w.longest)
	}
	return accepted, refused, broken, longest
}

// writersAt makes a writer for each node.
func writersAt(ctx context.Context, nodes []*bus) (all []*writer, err error) {
	for i, b := range nodes {
		w := &writer{bus: b, key: fmt.Sprint("writer", i)}
		if err := b.create(ctx, w.key); err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// busy lets each writer commit again and again until the returned function ends that.
func busy(ctx context.Context, all ...*writer) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	for _, w := range all {
		done.Go(func() {
			for ctx.Err() == nil {
				w.write(context.WithoutCancel(ctx))
			}
		})
	}
	return func() {
		cancel()
		done.Wait()
	}
}

// each lets each writer commit so many times.
func each(ctx context.Context, n int, all ...*writer) error {
	return together(len(all), func(i int) error {
		for range n {
			all[i].write(ctx)
		}
		return nil
	})
}

// missingAt counts the accepted commits that a reader does not find. It may be behind; a shard that it does not know
// has been lost.
func missingAt(ctx context.Context, reader *bus, all []*writer) (lost int, err error) {
	for _, w := range all {
		status, err := reader.ask(ctx, http.MethodGet, "/shard/"+w.key, nil, nil, http.StatusOK, http.StatusNotFound)
		var now shown
		if err == nil && status == http.StatusOK {
			now, err = reader.until(ctx, w.key, "", uint64(w.accepted))
		}
		if err != nil {
			return 0, err
		}
		lost += w.accepted - w.found(now)
	}
	return lost, nil
}

// found counts the accepted commits that a shard shows. One more may be there, which was not answered.
func (w *writer) found(now shown) (n int) {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(now.Content) {
		words[word] = true
	}
	for i := range w.accepted {
		if words[fmt.Sprint(i)] && now.Version >= uint64(w.accepted) {
			n++
		}
	}
	return n
}
