package streams_test

import (
	"errors"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
)

func settle(a *teststreams.Agent, tx sequencer.TxID) {
	a.World.T.Helper()
	a.Append(&sequencer.Intent{Kind: sequencer.IntentSettle, Tx: tx, N: 1, Agent: a.Name, Incarnation: a.Incarnation,
		Base: a.Incarnation, Settle: &sequencer.Settle{NoneElse: true}})
}

// What is owed is asked of the fold: exact as of a seq, whichever processor owns it.
func TestUnsettled(t *testing.T) {
	w := teststreams.New(t)
	w.Run(w.Cfg)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann, bob := w.Join(c, v, "shop", "ann"), w.Join(c, v, "shop", "bob")
	rows := func(agent string, limit int) string {
		list, through, err := c.Unsettled(w.Context(), "shop", agent, limit)
		if err != nil && !errors.Is(err, streams.ErrTruncated) {
			t.Fatal(err)
		}
		if through > sequencer.Seq(v.Len()) {
			w.Until("the view", func() bool { return sequencer.Seq(v.Len()) >= through })
		}
		text := ""
		for _, r := range list {
			if r.Phase != sequencer.PhaseAborted || r.Code != sequencer.CodeToolFailed || r.Owner != r.Incarnation {
				t.Errorf("%+v", r)
			}
			text += string(r.Tx) + " "
		}
		if err != nil {
			text += "and more"
		}
		return text
	}
	if got := rows("", 10); got != "" {
		t.Errorf("at the start: %s", got)
	}
	ann.Touched("a1", "db:/1")
	bob.Touched("b1", "db:/2")
	ann.Touched("a2", "db:/3")
	w.Decided(v, "a2")
	for _, x := range []struct {
		agent string
		limit int
		want  string
	}{{"", 10, "a1 b1 a2 "}, {"ann", 10, "a1 a2 "}, {"eve", 10, ""}, {"", 2, "a1 b1 and more"}} {
		if got := rows(x.agent, x.limit); got != x.want {
			t.Errorf("of %q: %s, want %s", x.agent, got, x.want)
		}
	}
	settle(ann, "a1")
	w.Until("the settlement", func() bool { return rows("ann", 10) == "a2 " })
	if list, through, err := c.Unsettled(w.Context(), "nobody", "", 10); err != nil || len(list) != 0 || through != 0 {
		t.Errorf("of a workspace without a log: %v %d %v", list, through, err)
	}
	w.Servers.StopNATS()
	if _, _, err := c.Unsettled(w.Context(), "shop", "", 10); !errors.Is(err, streams.ErrNoAnswer) {
		t.Errorf("without NATS: %v", err)
	}
}
