package sequencer

// readable reports whether the intent has the payload that its kind names, in the form that the fold relies on. Codecs
// and faces give better words to what is wrong; here it only must not get in. Before logic 4 no seal took shards away.
func (in *Intent) readable(tombs bool) bool {
	if len(in.Signer) > maxSignerBytes {
		// Each outcome of its may repeat it, and has room for so much.
		return false
	}
	switch in.Kind {
	case IntentJoin:
		return in.Join != nil && in.Join.ID != "" && in.Agent != ""
	case IntentTick:
		return in.Tick != nil
	case IntentRules:
		return in.Rules != nil
	case IntentWatermark:
		return in.Watermark != nil
	case IntentRegister, IntentUnregister:
		return in.Register != nil && in.Register.Server != ""
	case IntentSelect:
		return in.Select != nil && in.Select.Group != "" && in.Select.Winner != ""
	}
	// A number of zero would be a duplicate of everything.
	if in.Tx == "" || in.N == 0 || in.Begin != nil && !in.Begin.readable() {
		return false
	}
	switch in.Kind {
	case IntentBegin:
		return in.Begin != nil
	case IntentTouch:
		return in.Touch != nil && readableWants(in.Touch.Wants)
	case IntentSeal:
		return in.Seal != nil && in.Seal.readable(tombs)
	case IntentSettle:
		return in.Settle != nil && in.Settle.readable()
	case IntentVerdict:
		return in.Verdict != nil && in.Verdict.readable()
	}
	return true
}

func (b *Begin) readable() bool {
	return b.Mode.valid() && (b.Levels == nil || b.Levels.valid()) && readableWants(b.May)
}

func (s *Seal) readable(tombs bool) bool {
	for _, r := range s.Reads {
		if !r.Scope.valid() {
			return false
		}
	}
	for _, e := range s.Effects {
		if !e.Class.valid() || !readableScopes(e.Scopes) {
			return false
		}
	}
	for _, w := range s.Shards {
		if !w.Scope.valid() || w.Ref != nil && w.Ref.Size < 0 || w.Absent && !tombs || w.Restored != 0 {
			return false
		}
		if !w.Op.valid() || w.Removes != 0 {
			return false
		}
	}
	return true
}

func (s *Settle) readable() bool {
	for _, e := range s.Effects {
		if e.Result > ResultPartial || !readableScopes(e.Scopes) {
			return false
		}
	}
	return true
}

func readableScopes(scopes []Scope) bool {
	for _, s := range scopes {
		if !s.valid() {
			return false
		}
	}
	return true
}

func readableWants(wants []Want) bool {
	for _, w := range wants {
		if !w.Scope.valid() || w.Access > WriteAccess {
			return false
		}
	}
	return true
}

// bytes estimates what an intent would keep in the state.
func (in *Intent) bytes() int {
	n := 256 + len(in.Tx) + len(in.Agent)
	if in.Begin != nil {
		n += wantBytes(in.Begin.May) + len(in.Begin.Group)
	}
	if in.Touch != nil {
		n += wantBytes(in.Touch.Wants)
	}
	if in.Seal != nil {
		n += in.Seal.bytes() + in.Seal.inline()
	}
	return n
}
