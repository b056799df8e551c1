package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

func TestExplainShard(t *testing.T) {
	e := example(t).Explain("order.note", []byte(`{"order_id":"W17","text":"x"}`))
	text := strings.Join(e.Sentences, " ")
	if e.Refused != "" || !strings.Contains(text, "in the step of the commit") || strings.Contains(text, "sent") {
		t.Errorf("%+v", e)
	}
}

// TestMayBeforeTheArguments: what is claimed at a begin needs only the arguments that may is made of.
func TestMayBeforeTheArguments(t *testing.T) {
	p := example(t)
	got, err := p.May("order.change_address", []byte(`{"order_id":"W17"}`))
	if err != nil || len(got) != 1 || got[0] != (sequencer.Want{Scope: "order:/w17", Access: sequencer.WriteAccess}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, args := range []string{`{}`, `{"order_id":"W17","colour":"red"}`, `[]`} {
		if got, err := p.May("order.change_address", []byte(args)); !errors.Is(err, ErrArguments) {
			t.Errorf("%s: %v, %v", args, got, err)
		}
	}
	if got, err := p.May("payment.charge", []byte(`{"order_id":"W17"}`)); !errors.Is(err, ErrArguments) {
		t.Errorf("without may: %v, %v", got, err)
	}
}
