package settle

import (
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
)

// TestMergeUndone holds that what a compensation's sink said, as the log has it, counts more than that a journal has
// the compensation as lost.
func TestMergeUndone(t *testing.T) {
	done, no := &gate.Answer{}, &gate.Answer{Refused: true}
	for _, c := range []struct {
		name               string
		kept, logged, want gate.Progress
	}{
		{"lost here, done there", gate.Progress{UndoLost: true}, gate.Progress{UndoDone: done},
			gate.Progress{UndoDone: done}},
		{"lost here, refused there", gate.Progress{UndoLost: true}, gate.Progress{UndoDone: no, UndoLost: true},
			gate.Progress{UndoDone: no, UndoLost: true}},
		{"done here, lost there", gate.Progress{UndoDone: done}, gate.Progress{UndoLost: true},
			gate.Progress{UndoDone: done}},
		{"lost here", gate.Progress{UndoLost: true}, gate.Progress{}, gate.Progress{UndoLost: true}},
		{"lost there", gate.Progress{}, gate.Progress{UndoLost: true}, gate.Progress{UndoLost: true}},
	} {
		got := merge([]gate.Progress{c.kept}, []gate.Progress{c.logged})
		if len(got) != 1 || got[0].UndoDone != c.want.UndoDone || got[0].UndoLost != c.want.UndoLost {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestMergeUnsent holds that a call which is begun here is not taken for one that never left, though the log still
// says so of the try before.
func TestMergeUnsent(t *testing.T) {
	const away = "it did not leave: away"
	for _, c := range []struct {
		name         string
		kept, logged gate.Progress
		want         string
	}{
		{"said there", gate.Progress{}, gate.Progress{Unsent: away}, away},
		{"said here", gate.Progress{Unsent: away}, gate.Progress{}, away},
		{"begun here since", gate.Progress{Started: true}, gate.Progress{Unsent: away}, ""},
		{"begun there since", gate.Progress{Unsent: away}, gate.Progress{Started: true}, ""},
		{"answered there", gate.Progress{Unsent: away}, gate.Progress{Answer: &gate.Answer{}}, ""},
	} {
		if got := merge([]gate.Progress{c.kept}, []gate.Progress{c.logged}); got[0].Unsent != c.want {
			t.Errorf("%s: unsent is %q, want %q", c.name, got[0].Unsent, c.want)
		}
	}
}

// TestMergeReplaced: the index of a call that never ran was given to another one, and the journal ends between the
// two. The log has the later one. What has begun here, or is the same call, stays.
func TestMergeReplaced(t *testing.T) {
	at := time.Unix(1e9, 500_000) // the log has milliseconds only
	same, later := at.Truncate(time.Millisecond), at.Add(time.Second)
	call := func(tool string, at time.Time) gate.Progress {
		return gate.Progress{Effect: gate.Effect{Tool: gate.Tool{Name: tool}, At: at}}
	}
	begun := call("set", at)
	begun.Started = true
	for _, c := range []struct {
		name         string
		kept, logged gate.Progress
		want         string
	}{
		{"replaced", call("set", at), call("mail", later), "mail"},
		{"the same", call("set", at), call("logged", same), "set"},
		{"it replaces", call("mail", later), call("set", same), "mail"},
		{"begun", begun, call("mail", later), "set"},
	} {
		got := merge([]gate.Progress{c.kept}, []gate.Progress{c.logged})
		if len(got) != 1 || got[0].Tool.Name != c.want {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
}
