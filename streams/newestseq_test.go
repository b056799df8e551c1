package streams_test

import (
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// Newest is the last seq that was decided; nothing where nothing was, an error where it cannot be known.
func TestNewest(t *testing.T) {
	w := newWorld(t)
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	if seq, err := c.Newest(w.context(), "nobody"); err != nil || seq != 0 {
		t.Errorf("an empty workspace: %d, %v", seq, err)
	}
	ann := w.join(c, v, "shop", "ann")
	w.decided(v, ann.write("x", "one"))
	w.until("the newest", func() bool {
		seq, err := c.Newest(w.context(), "shop")
		return err == nil && seq == sequencer.Seq(v.len())
	})
	if _, err := c.Newest(w.context(), "no|such"); err == nil {
		t.Error("a workspace that cannot be has a newest decision")
	}
	alone := w.cfg
	alone.NATS = ""
	if _, err := w.dial(alone).Newest(w.context(), "shop"); err == nil {
		t.Error("without NATS it is known nevertheless")
	}
}
