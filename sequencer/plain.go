package sequencer

// plain is a record as the workspace's logic reads it. A processor of an older release skips the fields that it does
// not know, so under its logic this one must decide as if they were not there.
func (f *Fold) plain(in *Intent) *Intent {
	if in != nil && in.Signer != "" && !f.signs() {
		out := *in
		out.Signer = ""
		in = &out
	}
	switch {
	case in == nil:
	case in.Kind == IntentWatermark && in.Watermark != nil && in.Watermark.Confirm != 0 && !f.bounded():
		// Before logic 3 it asks for nothing, and has no id of its own.
		out := *in
		out.Watermark = &Watermark{Seq: in.Watermark.Seq}
		return &out
	case in.Kind == IntentSeal && in.Seal != nil && !f.merging():
		return in.before4()
	case in.approves() && !f.merging():
		// Before logic 4 it is a verdict, on a footprint that it may not even name.
		out, v := *in, *in.Verdict
		v.Approvals, out.Verdict = nil, &v
		return &out
	}
	return in
}

// before4 is a seal without what logic 4 added.
func (in *Intent) before4() *Intent {
	if s := in.Seal.before4(); s != in.Seal {
		out := *in
		out.Seal = s
		return &out
	}
	return in
}

func (s *Seal) before4() *Seal {
	out := s
	change := func() *Seal {
		if out == s {
			c := *s
			c.Shards = append([]ShardWrite(nil), s.Shards...)
			c.Effects = append([]Effect(nil), s.Effects...)
			out = &c
		}
		return out
	}
	for i := range s.Shards {
		w := &s.Shards[i]
		if w.Op != OpSet || w.Removes != 0 {
			c := change()
			c.Shards[i].Op, c.Shards[i].Removes = OpSet, 0
		}
		if r := w.Ref; r != nil && (r.Chunks != 0 || r.Last != 0) { // the place of the first event is all that is read
			plain := *r
			plain.Chunks, plain.Last = 0, 0
			change().Shards[i].Ref = &plain
		}
	}
	for i := range s.Effects {
		if e := &s.Effects[i]; e.Absent || e.Approve || e.Args != (Hash{}) {
			c := change()
			c.Effects[i].Absent, c.Effects[i].Approve, c.Effects[i].Args = false, false, Hash{}
		}
	}
	return out
}
