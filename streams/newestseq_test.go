package streams_test

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

// Newest is the last seq that was decided; nothing where nothing was, an error where it cannot be known.
func TestNewest(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	if seq, err := c.Newest(w.Context(), "nobody"); err != nil || seq != 0 {
		t.Errorf("an empty workspace: %d, %v", seq, err)
	}
	ann := w.Join(c, v, "shop", "ann")
	w.Decided(v, ann.Write("x", "one"))
	w.Until("the newest", func() bool {
		seq, err := c.Newest(w.Context(), "shop")
		return err == nil && seq == sequencer.Seq(v.Len())
	})
	if _, err := c.Newest(w.Context(), "no|such"); err == nil {
		t.Error("a workspace that cannot be has a newest decision")
	}
	alone := w.Cfg
	alone.NATS = ""
	if _, err := w.Dial(alone).Newest(w.Context(), "shop"); err == nil {
		t.Error("without NATS it is known nevertheless")
	}
}
