package topology

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// The conversation of a begin, of a transaction and of a loose read is written where there is one. Without it the
// records have the bytes that they had before, so those are read as of the default conversation.
func TestSessionIsOptional(t *testing.T) {
	in := &sequencer.Intent{Kind: sequencer.IntentBegin, Tx: "t", N: 1, Begin: sampleBegin()}
	event := &Event{Kind: EventRead, Workspace: "w", Agent: "a", Incarnation: 3, Index: 1, Scope: "shard:/x", View: 7}
	state := sampleReplica()
	records := func() [3][]byte {
		var out [3][]byte
		var err [3]error
		out[0], err[0] = EncodeIntent(in)
		out[1], err[1] = EncodeEvent(event)
		out[2], err[2] = EncodeReplica(state)
		for _, e := range err {
			if e != nil {
				t.Fatal(e)
			}
		}
		return out
	}
	without := records()
	in.Begin.Session, event.Session, state.State.Txs[0].Session = "chat-17", "chat-17", "chat-17"
	with := records()
	for i, name := range []string{"intent", "event", "state"} {
		if bytes.Contains(without[i], []byte("chat-17")) || !bytes.Contains(with[i], []byte("chat-17")) {
			t.Errorf("%s: %x without and %x with a conversation", name, without[i], with[i])
		}
	}
	gotIn, err1 := DecodeIntent(with[0])
	gotEvent, err2 := DecodeEvent(with[1])
	gotState, err3 := DecodeReplica(with[2])
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	if !reflect.DeepEqual(gotIn, in) || !reflect.DeepEqual(gotEvent, event) ||
		gotState.State.Txs[0].Session != "chat-17" {
		t.Errorf("read back: %+v %+v %+v", gotIn.Begin, gotEvent, gotState.State.Txs[0])
	}
}
