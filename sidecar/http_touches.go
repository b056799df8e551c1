package sidecar

import (
	"net/http"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// wantsOf reads scopes with their access, in the one spelling of their names.
func wantsOf(list []api.Want) ([]sequencer.Want, error) {
	if len(list) == 0 {
		return nil, api.Problemf(api.CodeBadRequest, "wants is empty: name the scopes to act on, with access read or write")
	}
	var out []sequencer.Want
	for _, w := range list {
		scope, err := topology.ParseScope(w.Scope)
		if err != nil {
			return nil, badScope(w.Scope, err)
		}
		want := sequencer.Want{Scope: scope}
		switch w.Access {
		case "read":
		case "write":
			want.Access = sequencer.WriteAccess
		default:
			return nil, api.Problemf(api.CodeBadRequest, "access %.20q of %s: use read or write", w.Access, scope)
		}
		out = append(out, want)
	}
	return out, nil
}

func (s *Sidecar) touchTx(c *call) (*reply, error) {
	var in api.Touch
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	wants, err := wantsOf(in.Wants)
	if err != nil {
		return nil, err
	}
	if most := s.session.footprintLimit(); len(wants) > most {
		return nil, api.Problemf(api.CodeLimit, "the touch names %d scopes; at most %d go into one", len(wants), most)
	}
	most := int(s.config.Limits.WaitMost.Milliseconds())
	wait := most
	if in.WaitMs != nil {
		wait = *in.WaitMs
	}
	if wait < 0 || wait > most {
		return nil, api.Problemf(api.CodeBadRequest, "wait_ms is %d: give 0 to %d", wait, most)
	}
	if in.BoundMs < 0 || in.BoundMs > maxDeadlineMs {
		return nil, api.Problemf(api.CodeBadRequest, "bound_ms is %d: give 0 to %d", in.BoundMs, maxDeadlineMs)
	}
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	if wants = s.view.widen(wants); len(wants) > s.session.footprintLimit() {
		return nil, api.Problemf(api.CodeLimit, "the touch names %d scopes, with those of stored names that are spelt otherwise; at "+
			"most %d go into one", len(wants), s.session.footprintLimit())
	}
	out, err := s.session.touchFor(c.ctx, t, asking{wants: wants, wait: time.Duration(wait) * time.Millisecond,
		bound: ticksOf(in.BoundMs)})
	if err != nil {
		return nil, err
	}
	if out.State == api.TouchWaiting {
		return jsonReply(http.StatusAccepted, out), nil
	}
	return jsonReply(http.StatusOK, out), nil
}

// ticksOf is a time in ticks of the log, rounded up.
func ticksOf(ms int) sequencer.Tick {
	tick := int(tickLength.Milliseconds())
	return sequencer.Tick((ms + tick - 1) / tick)
}

func (s *Sidecar) settleTx(c *call) (*reply, error) {
	var in api.Settlement
	if err := c.decode(&in, false); err != nil {
		return nil, err
	}
	told, err := s.settleOf(&in)
	if err != nil {
		return nil, err
	}
	t, err := s.session.find(sequencer.TxID(c.params["tx"]))
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := s.waiting(c, s.config.Limits.WaitMost)
	if err != nil {
		return nil, err
	}
	defer cancel()
	d, err := s.session.tell(ctx, t, told)
	if err != nil {
		return nil, err
	}
	if !d.Final {
		return jsonReply(http.StatusAccepted, d), nil
	}
	return jsonReply(http.StatusOK, d), nil
}

func (s *Sidecar) settleOf(in *api.Settlement) (*sequencer.Settle, error) {
	if len(in.Effects) == 0 && !in.NoneElse {
		return nil, api.Problemf(api.CodeBadRequest, "effects is empty and none_else is not true: say what was done, or that "+
			"nothing was")
	}
	if most := s.session.footprintLimit(); len(in.Effects) > most {
		return nil, api.Problemf(api.CodeLimit, "%d effects; at most %d go into a settlement", len(in.Effects), most)
	}
	out := &sequencer.Settle{NoneElse: in.NoneElse}
	for _, e := range in.Effects {
		one := sequencer.Settled{}
		found := false
		for r := sequencer.ResultClean; r <= sequencer.ResultPartial; r++ {
			if r.String() == e.Result {
				one.Result, found = r, true
			}
		}
		if !found || len(e.Scopes) == 0 {
			return nil, api.Problemf(api.CodeBadRequest, "an effect of result %.20q with %d scopes: name scopes, and as result "+
				"clean, leaked, unresolved or partial", e.Result, len(e.Scopes))
		}
		for _, text := range e.Scopes {
			scope, err := sequencer.ParseScope(text)
			if err != nil {
				return nil, badScope(text, err)
			}
			one.Scopes = append(one.Scopes, scope)
		}
		out.Effects = append(out.Effects, one)
	}
	return out, nil
}
