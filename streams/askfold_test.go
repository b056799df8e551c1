package streams_test

import (
	"errors"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
)

// touched opens a transaction that is granted a scope, and gives it up.
func (a *agent) touched(tx sequencer.TxID, scope sequencer.Scope) {
	a.w.t.Helper()
	in := sequencer.Intent{Tx: tx, N: 1, Agent: a.name, Incarnation: a.incarnation, Base: a.incarnation}
	touch, abort := in, in
	touch.Kind, touch.Begin = sequencer.IntentTouch, &sequencer.Begin{}
	touch.Touch = &sequencer.Touch{Wants: []sequencer.Want{{Scope: scope, Access: sequencer.WriteAccess}}}
	abort.Kind, abort.Abort = sequencer.IntentAbort, &sequencer.Abort{Code: sequencer.CodeToolFailed}
	a.append(&touch)
	a.append(&abort)
}

func (a *agent) settle(tx sequencer.TxID) {
	a.w.t.Helper()
	a.append(&sequencer.Intent{Kind: sequencer.IntentSettle, Tx: tx, N: 1, Agent: a.name, Incarnation: a.incarnation,
		Base: a.incarnation, Settle: &sequencer.Settle{NoneElse: true}})
}

// What is owed is asked of the fold: exact as of a seq, whoever owns it.
func TestUnsettled(t *testing.T) {
	w := newWorld(t)
	w.run(w.cfg)
	c := w.dial(w.cfg)
	v := w.follow(c, "shop")
	ann, bob := w.join(c, v, "shop", "ann"), w.join(c, v, "shop", "bob")
	rows := func(agent string, limit int) string {
		list, through, err := c.Unsettled(w.context(), "shop", agent, limit)
		if err != nil && !errors.Is(err, streams.ErrTruncated) {
			t.Fatal(err)
		}
		if through > sequencer.Seq(v.len()) {
			w.until("the view", func() bool { return sequencer.Seq(v.len()) >= through })
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
	ann.touched("a1", "db:/1")
	bob.touched("b1", "db:/2")
	ann.touched("a2", "db:/3")
	w.decided(v, "a2")
	for _, x := range []struct {
		agent string
		limit int
		want  string
	}{{"", 10, "a1 b1 a2 "}, {"ann", 10, "a1 a2 "}, {"eve", 10, ""}, {"", 2, "a1 b1 and more"}} {
		if got := rows(x.agent, x.limit); got != x.want {
			t.Errorf("of %q: %s, want %s", x.agent, got, x.want)
		}
	}
	ann.settle("a1")
	w.until("the settlement", func() bool { return rows("ann", 10) == "a2 " })
	if list, through, err := c.Unsettled(w.context(), "nobody", "", 10); err != nil || len(list) != 0 || through != 0 {
		t.Errorf("of a workspace without a log: %v %d %v", list, through, err)
	}
	w.servers.StopNATS()
	if _, _, err := c.Unsettled(w.context(), "shop", "", 10); !errors.Is(err, streams.ErrNoAnswer) {
		t.Errorf("without NATS: %v", err)
	}
}
