package retail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func mustRun(t *testing.T, d *Domain, task Task, store Store) Result {
	t.Helper()
	result, err := d.Run(task, store)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// replayTwice replays all tasks of a data set in a row twice and wants the same bytes.
func replayTwice(t *testing.T, d *Dataset) {
	t.Helper()
	initial := Memory(d.Initial())
	before := initial.Hash()
	first, err := d.Domain().Replay(initial, d.Tasks)
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.Domain().Replay(d.Initial(), d.Tasks)
	if err != nil {
		t.Fatal(err)
	}
	if diff := first.Diff(second); len(diff) > 0 || first.Hash() != second.Hash() {
		t.Errorf("two replays differ in %v", diff)
	}
	if first.Hash() == before {
		t.Error("a replay of all tasks changed nothing")
	}
	if initial.Hash() != before {
		t.Error("a replay changed the state that it started from")
	}
}

func TestReplaySmall(t *testing.T) { replayTwice(t, Small(1)) }

// brokenStore fails at its n-th read, counted from 0.
type brokenStore struct {
	Memory
	n, reads int
}

var errBroken = errors.New("store is away")

func (b *brokenStore) Read(key string) ([]byte, bool, error) {
	b.reads++
	if b.reads > b.n {
		return nil, false, errBroken
	}
	return b.Memory.Read(key)
}

// TestAllOrNothing lets every read of every task fail in turn: no part of the task may come out.
func TestAllOrNothing(t *testing.T) {
	d := Small(1)
	initial, domain, failed := Memory(d.Initial()), d.Domain(), 0
	before := initial.Hash()
	for _, task := range d.Tasks {
		for n := range mustRun(t, domain, task, initial).Reads {
			result, err := domain.Run(task, &brokenStore{Memory: initial, n: n})
			if !errors.Is(err, errBroken) {
				t.Fatalf("task %d, read %d: error %v, want that of the store", task.ID, n, err)
			}
			if !reflect.DeepEqual(result, Result{}) {
				t.Errorf("task %d, read %d: the store failed and the result is %+v", task.ID, n, result)
			}
			failed++
		}
	}
	if failed < len(d.Tasks) || initial.Hash() != before {
		t.Errorf("%d reads failed; the state changed: %v", failed, initial.Hash() != before)
	}
}

func TestRecordThatIsNotOurs(t *testing.T) {
	d := Small(1)
	task := Task{Actions: []Action{action("get_order_details", arg{"order_id", "#S001"})}}
	for _, record := range []string{`{"order_id":"#S001","colour":"red"}`, `[]`, `{`, ``, `{} {}`} {
		state := Memory{OrderKey("#S001"): []byte(record)}
		if result, err := d.Domain().Run(task, state); err == nil || result.Reads != nil {
			t.Errorf("record %q: result %+v, error %v; want an error that says so", record, result, err)
		}
	}
}

// TestOwnWrites: a later call sees what an earlier one of the same task wrote, each key is read from the store
// once, and the state stays as it was until the result is applied.
func TestOwnWrites(t *testing.T) {
	d := Small(1)
	order := arg{"order_id", "#S001"}
	task := Task{Actions: []Action{
		action("annotate_order", order, arg{"text", "one"}),
		action("annotate_order", order, arg{"text", "two"}),
		action("get_order_details", order),
	}}
	store := &brokenStore{Memory: d.Initial(), n: 1}
	result := mustRun(t, d.Domain(), task, store)
	want := []string{OrderKey("#S001")}
	if !slices.Equal(result.Reads, want) || !slices.Equal(result.WriteKeys(), want) {
		t.Fatalf("reads %v, writes %v, want %v for both", result.Reads, result.WriteKeys(), want)
	}
	o, err := DecodeOrder([]byte(result.Texts[2]))
	if err != nil || o.LastNote() != 2 || o.Notes[0].Text != "one" {
		t.Errorf("the last call saw %s, %v; want both notes", result.Texts[2], err)
	}
	if !bytes.Equal([]byte(result.Texts[2]), result.Writes[OrderKey("#S001")]) {
		t.Error("the last call saw something else than what is written")
	}
}

// TestUnchangedIsNoWrite: an address that is changed and changed back leaves nothing to write.
func TestUnchangedIsNoWrite(t *testing.T) {
	d := Small(1)
	user := arg{"user_id", "customer_03"}
	there := addressAction("modify_user_address", user, 77)
	back := addressAction("modify_user_address", user, 3)
	state := Memory(d.Initial())
	if r := mustRun(t, d.Domain(), Task{Actions: []Action{there}}, state); len(r.Writes) != 1 {
		t.Errorf("one change writes %v, want the user", r.WriteKeys())
	}
	if r := mustRun(t, d.Domain(), Task{Actions: []Action{there, back}}, state); len(r.Writes) != 0 {
		t.Errorf("a change and its reverse write %v, want nothing", r.WriteKeys())
	}
}

// TestWritesAreRead holds the promise of Result: no shard is written that was not read, and each is canonical.
func TestWritesAreRead(t *testing.T) {
	d := Small(2)
	state := Memory(d.Initial())
	for _, task := range d.Tasks {
		result := mustRun(t, d.Domain(), task, state)
		for key, value := range result.Writes {
			if !slices.Contains(result.Reads, key) {
				t.Errorf("task %d writes %s without reading it", task.ID, key)
			}
			if canonical, err := Canonical(value); err != nil || !bytes.Equal(canonical, value) {
				t.Errorf("task %d writes %s in another form: %s", task.ID, key, value)
			}
		}
		state.Apply(result)
	}
}

// TestContended: alone, every contended task succeeds and its note takes the next number; two that ran over the
// same reading leave one number for two successes, which is how a lost update shows.
func TestContended(t *testing.T) {
	d := Small(1)
	state, domain := Memory(d.Initial()), d.Domain()
	key := OrderKey(d.ContendedOrder())
	last := func() int {
		o, err := DecodeOrder(state[key])
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Notes) > maxNotes {
			t.Fatalf("the order keeps %d notes, want at most %d", len(o.Notes), maxNotes)
		}
		return o.LastNote()
	}
	for n := 1; n <= 3*maxNotes; n++ {
		result := mustRun(t, domain, d.Contended(n, fmt.Sprintf("round %d", n)), state)
		if len(result.Errors) > 0 {
			t.Fatalf("round %d: %v", n, result.Errors)
		}
		state.Apply(result)
		if last() != n {
			t.Fatalf("round %d left note %d", n, last())
		}
	}
	before := last()
	one := mustRun(t, domain, d.Contended(1, "one"), state)
	two := mustRun(t, domain, d.Contended(2, "two"), state)
	state.Apply(one)
	state.Apply(two)
	if last() != before+1 || bytes.Contains(state[key], []byte(`"one"`)) {
		t.Errorf("two writes over one reading left note %d, want %d and the first lost", last(), before+1)
	}
}

func TestTooManyActions(t *testing.T) {
	task := Task{Actions: make([]Action, maxActions+1)}
	if _, err := Small(1).Domain().Run(task, Memory{}); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("error %v, want the bound", err)
	}
}

// TestCheckFindsDifferences shows that the comparison which the real data rests on can fail.
func TestCheckFindsDifferences(t *testing.T) {
	d := Small(1)
	task := d.Contended(7, "x")
	result := mustRun(t, d.Domain(), task, Memory(d.Initial()))
	key := OrderKey(d.ContendedOrder())
	orders := map[string]json.RawMessage{d.ContendedOrder(): result.Writes[key]}
	want := Expected{ID: 7, Changed: Changed{Orders: orders}}
	if err := want.Check(result); err != nil {
		t.Fatalf("equal result: %v", err)
	}
	refused := result
	refused.Errors = []ToolError{{1, "Error: no"}}
	lacking := result
	lacking.Writes = nil
	other := result
	other.Writes = map[string][]byte{key: bytes.Replace(result.Writes[key], []byte(`"x"`), []byte(`"y"`), 1)}
	more := result
	more.Writes = map[string][]byte{key: result.Writes[key], UserKey("customer_01"): []byte("{}")}
	for name, r := range map[string]Result{"refused": refused, "lacking": lacking, "other": other, "more": more} {
		if err := want.Check(r); err == nil {
			t.Errorf("%s: no difference found", name)
		}
	}
}
