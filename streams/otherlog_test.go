package streams_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// askedClock tells when a caller that has asked waits to ask again, and shortens that.
type askedClock struct{ asked chan struct{} }

func (c askedClock) Now() time.Time { return time.Now() }

func (c askedClock) After(time.Duration) <-chan time.Time {
	select {
	case c.asked <- struct{}{}:
	default:
	}
	return time.After(10 * time.Millisecond)
}

// TestSameLog takes the broker's disk away under a watcher, with and without recreated topics.
func TestSameLog(t *testing.T) {
	for name, again := range map[string]bool{"gone": false, "another one": true} {
		t.Run(name, func(t *testing.T) {
			w := teststreams.New(t)
			clock := askedClock{make(chan struct{}, 1)}
			cfg := w.Cfg
			cfg.Clock = clock
			ended := make(chan error, 1)
			go func() { ended <- streams.SameLog(w.Context(), cfg) }()
			<-clock.asked
			w.Servers.StopKafka()
			<-clock.asked
			select {
			case err := <-ended:
				t.Fatalf("a broker that is away is taken for another log: %v", err)
			default:
			}
			if err := w.Servers.StartKafka(); err != nil {
				t.Fatal(err)
			}
			if again {
				if err := streams.EnsureTopics(w.Context(), w.Cfg); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-ended; !errors.Is(err, streams.ErrOtherLog) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
