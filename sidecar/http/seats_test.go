package http

import (
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
)

// hanging is an agent whose health is not known before it is released.
type hanging struct {
	Agent
	asked, release chan struct{}
}

func (h *hanging) Health() api.Standing {
	close(h.asked)
	<-h.release
	return api.Standing{}
}

// While one agent does not answer how it is, requests of the others find their seats.
func TestHangingAgent(t *testing.T) {
	s := NewSeats(true, nil)
	sick := &hanging{asked: make(chan struct{}), release: make(chan struct{})}
	s.Add(&Seat{Agent: sick, Name: "a"})
	s.Add(&Seat{Name: "b"})
	for agent, token := range map[string]string{"": "operator", "b": "token of b"} {
		if err := s.Grant(agent, token, RoleAgent); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _, _ = s.Enter(Asking{Token: "operator", Name: "", Tx: ""})
	}()
	<-sick.asked
	entered := make(chan *Seat, 1)
	go func() {
		seat, _, leave, _ := s.Enter(Asking{Token: "token of b"})
		leave()
		entered <- seat
	}()
	if seat := <-entered; seat == nil || seat.Name != "b" {
		t.Errorf("entered %+v", seat)
	}
	close(sick.release)
	<-ended
}

// An approver's token is no agent's, operator's or other approver's: an agent would approve its own calls.
func TestApproverIsNobodyElse(t *testing.T) {
	s := NewSeats(true, nil)
	for i, err := range []error{s.Grant("a", "token of a", RoleAgent), s.GrantApprover("ann", "token of ann"),
		s.Grant("", "operator", RoleOperator)} {
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	for i, err := range []error{s.GrantApprover("bob", "token of ann"), s.GrantApprover("bob", "token of a"),
		s.GrantApprover("bob", "operator"), s.Grant("b", "token of ann", RoleAgent),
		s.Grant("", "token of ann", RoleOperator)} {
		if err == nil {
			t.Errorf("%d: a token is an approver's and somebody else's", i)
		}
	}
	if s.Approver("token of ann", "") != "ann" || s.Approver("token of a", "") != "" || s.Approver("", "") != "" {
		t.Error("an approver is not known by the token")
	}
}
