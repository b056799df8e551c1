package streams_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hence-dev/hence/streams"
)

// askedClock tells when somebody who has asked waits to ask again, and shortens that.
type askedClock struct{ asked chan struct{} }

func (c askedClock) Now() time.Time { return time.Now() }

func (c askedClock) After(time.Duration) <-chan time.Time {
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return time.After(10 * time.Millisecond)
}

// TestSameLog takes the broker's disk away under a watcher, with and without topics made anew.
func TestSameLog(t *testing.T) {
	for name, again := range map[string]bool{"gone": false, "another one": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			clock := askedClock{make(chan struct{}, 1)}
			cfg := w.cfg
			cfg.Clock = clock
			ended := make(chan error, 1)
			go func() { ended <- streams.SameLog(w.context(), cfg) }()
			<-clock.asked
			w.servers.StopKafka()
			<-clock.asked
			select {
			case err := <-ended:
				t.Fatalf("a broker that is away is taken for another log: %v", err)
			default:
			}
			if err := w.servers.StartKafka(); err != nil {
				t.Fatal(err)
			}
			if again {
				if err := streams.EnsureTopics(w.context(), w.cfg); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-ended; !errors.Is(err, streams.ErrOtherLog) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
