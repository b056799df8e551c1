package topology

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestEffectBounds holds what a tool call may take inline, in both directions.
func TestEffectBounds(t *testing.T) {
	event := func(change func(*EffectText)) *Event {
		e := &Event{Kind: EventEffect, Workspace: "w", Tx: "t", Effect: sampleEffectText()}
		change(e.Effect)
		return e
	}
	long := make([]byte, MaxEffectInline+1)
	for what, change := range map[string]func(*EffectText){
		"arguments": func(x *EffectText) { x.Args = long },
		"answer":    func(x *EffectText) { x.Answer = long },
		"scopes":    func(x *EffectText) { x.Scopes = make([]sequencer.Scope, MaxEffectScopes+1) },
		"may":       func(x *EffectText) { x.May = make([]sequencer.Scope, MaxEffectScopes+1) },
		"key":       func(x *EffectText) { x.Key = string(make([]byte, maxNameBytes+1)) },
	} {
		if _, err := EncodeEvent(event(change)); err == nil {
			t.Errorf("%s over the bound are written", what)
		}
	}
	whole := event(func(x *EffectText) {
		x.Args, x.Answer = long[1:], long[1:]
		x.Scopes, x.May = make([]sequencer.Scope, MaxEffectScopes), make([]sequencer.Scope, MaxEffectScopes)
	})
	b, err := EncodeEvent(whole)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeEvent(b); err != nil {
		t.Fatal(err)
	}
	n := byte(MaxEffectScopes >> 8)
	for what, lie := range map[string][2][]byte{
		"arguments": {{0xc6, 0, 2, 0, 0}, {0xc6, 0, 2, 0, 1, 0}},
		"scopes":    {{0xdc, n, 0}, {0xdc, n, 1, 0xa0}},
	} {
		if _, err := DecodeEvent(bytes.Replace(b, lie[0], lie[1], 1)); !errors.Is(err, ErrMalformed) {
			t.Errorf("one more of %s: %v, want ErrMalformed", what, err)
		}
	}
}

// A try by hand is read from its field, and of an older release from its text; a record without one has the bytes that
// it always had.
func TestByHandOfBothReleases(t *testing.T) {
	for _, by := range []ByHand{{In: "a.1.9"}, {In: "a.1.9", Undo: true}} {
		for _, e := range []*EffectText{{Step: 3, Detail: by.Text()}, {Step: 3, Detail: by.Text(), ByHand: &by},
			{Step: 3, ByHand: &by}} {
			body, err := EncodeEvent(&Event{Kind: EventAnswer, Workspace: "w", Tx: "t", Effect: e})
			if err != nil {
				t.Fatal(err)
			}
			read, err := DecodeEvent(body)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := read.Effect.Hand(); !ok || got != by {
				t.Errorf("%+v is read as %+v, %v", e, got, ok)
			}
		}
	}
	if by, ok := (&EffectText{Detail: "the call did not leave"}).Hand(); ok {
		t.Errorf("what is no try is read as %+v", by)
	}
}
