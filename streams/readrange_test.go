package streams_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// Who may not read is told so at once, and does not ask again and again until its time ends.
func TestReadThatIsForbidden(t *testing.T) {
	w := teststreams.New(t, func(c *streams.Config) { c.Partitions = 1 })
	c := w.Dial(w.Cfg)
	if err := c.PublishResidue(w.Context(), residueOf("shop", 0)); err != nil {
		t.Fatal(err)
	}
	fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topology.TopicResidue,
		Err: kerr.TopicAuthorizationFailed, Count: -1})
	ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
	defer cancel()
	if _, err := c.Residue(ctx, "shop", 10); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("forbidden: %v", err)
	}
	fault.Remove()
	// What passes is waited for.
	w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topology.TopicResidue,
		Err: kerr.NotLeaderForPartition, Count: 3})
	if list, err := c.Residue(w.Context(), "shop", 10); err != nil || len(list) != 1 {
		t.Errorf("after errors that pass: %v, %v", list, err)
	}
}
