package sinks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ledger(t *testing.T, o LedgerOptions) *Ledger {
	t.Helper()
	l, err := StartLedger(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func mailbox(t *testing.T, o MailboxOptions) *Mailbox {
	t.Helper()
	b, err := StartMailbox(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// post returns the status, 0 when the connection ended without an answer.
func post(t *testing.T, l *Ledger, key, compensates, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.URL()+"/charges", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	compensates, only, _ := strings.Cut(compensates, " ")
	for name, value := range map[string]string{headerKey: key, headerCompensates: compensates, headerForbidOnly: only} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestLedgerKeys(t *testing.T) {
	l := ledger(t, LedgerOptions{})
	for i, c := range []struct {
		key, compensates, body string
		want                   int
	}{
		{"a", "", `{"n":1}`, http.StatusCreated},
		{"a", "", `{"n":1}`, http.StatusOK},
		{"a", "", `{"n":2}`, http.StatusUnprocessableEntity},
		{"a/undo", "a", `{"n":1}`, http.StatusCreated},
		{"a", "", `{"n":1}`, http.StatusGone},
		{"a/undo", "a", `{"n":1}`, http.StatusOK},
		{"b/undo", "b only", `{}`, http.StatusCreated}, // b never came
		{"b", "", `{}`, http.StatusGone},               // and may not come late
		{"", "", `{}`, http.StatusCreated},
		{"", "", `{}`, http.StatusCreated},
		{"c", "", `{`, http.StatusBadRequest},
	} {
		if got := post(t, l, c.key, c.compensates, c.body); got != c.want {
			t.Errorf("request %d (%+v): status %d, want %d", i, c, got, c.want)
		}
	}
	entries := l.Entries()
	if n := len(entries); n != 5 || l.Duplicates() != 0 {
		t.Fatalf("%d entries with %d duplicates, want 5 with 0", n, l.Duplicates())
	}
	if entries[1].Nothing || !entries[2].Nothing {
		t.Errorf("a was undone, and b had nothing to undo: %+v", entries[1:3])
	}
}

func TestLedgerFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l := ledger(t, LedgerOptions{KeyLess: true})
	for _, c := range []struct {
		name    string
		faults  Faults
		undoes  string
		status  int
		entries int // more than before
		count   func(Injected) int
	}{
		{"F1", Faults{Refuse: 1}, "", 503, 0, func(i Injected) int { return i.Refused }},
		{"F2", Faults{Lose: 1}, "", 0, 1, func(i Injected) int { return i.Lost }},
		{"F3", Faults{Undo: 1}, "k", 503, 0, func(i Injected) int { return i.UndoFailed }},
		{"F3 elsewhere", Faults{Undo: 1}, "", 201, 1, func(i Injected) int { return i.UndoFailed }},
		{"F4", Faults{Duplicate: 1}, "", 201, 2, func(i Injected) int { return i.Duplicated }},
		{"F5", Faults{Late: 1, Delay: time.Millisecond}, "", 0, 1, func(i Injected) int { return i.Late }},
	} {
		before := len(l.Entries())
		l.SetFaults(c.faults)
		if got := post(t, l, "k"+c.name, c.undoes, "{}"); got != c.status {
			t.Errorf("%s: status %d, want %d", c.name, got, c.status)
		}
		if err := l.WaitFor(ctx, before+c.entries); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := l.Settled(ctx); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := len(l.Entries()) - before; got != c.entries {
			t.Errorf("%s: %d entries more, want %d", c.name, got, c.entries)
		}
		if c.count(l.Injected()) != 1 {
			t.Errorf("%s: counted %+v", c.name, l.Injected())
		}
	}
	if l.Duplicates() != 1 {
		t.Errorf("%d duplicates, want the one of F4", l.Duplicates())
	}
}

func TestDiceRepeat(t *testing.T) {
	draw := func(seed uint64) []drawn {
		d, out := newDice(Evenly(0.3, seed, time.Second)), []drawn(nil)
		for i := range 200 {
			out = append(out, d.draw(i%3 == 0))
		}
		return out
	}
	a, b, c := draw(7), draw(7), draw(8)
	same := true
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("request %d: the same seed drew %+v and %+v", i, a[i], b[i])
		}
		same = same && a[i] == c[i]
	}
	if same {
		t.Error("another seed drew the same faults")
	}
}

func TestMailboxFaults(t *testing.T) {
	b := mailbox(t, MailboxOptions{})
	send := func(id string) error {
		return smtp.SendMail(b.Addr(), nil, "shop@example.com", []string{"ann@example.com"},
			[]byte("Message-ID: <"+id+"@example.com>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nHello.\r\n"))
	}
	for _, c := range []struct {
		name   string
		faults Faults
		fails  bool
		more   int
	}{
		{"none", Faults{}, false, 1},
		{"F1", Faults{Refuse: 1}, true, 0},
		{"F2", Faults{Lose: 1}, true, 1},
		{"F4", Faults{Duplicate: 1}, false, 2},
		{"F5", Faults{Late: 1, Delay: time.Millisecond}, true, 1},
	} {
		before := len(b.Mails())
		b.SetFaults(c.faults)
		if err := send(c.name); (err != nil) != c.fails {
			t.Errorf("%s: %v, want an error: %t", c.name, err, c.fails)
		}
		if got := len(b.Mails()) - before; got != c.more {
			t.Errorf("%s: %d mails more, want %d", c.name, got, c.more)
		}
	}
	if m := b.Mails()[0]; m.Subject != "Grüße" || m.MessageID != "<none@example.com>" || m.To[0] != "ann@example.com" {
		t.Errorf("the first mail is %+v", m)
	}
	if b.Duplicates() != 1 {
		t.Errorf("%d duplicates, want the one of F4", b.Duplicates())
	}
}

func TestMailboxDedup(t *testing.T) {
	b := mailbox(t, MailboxOptions{Dedup: true, Faults: Faults{Duplicate: 1}})
	if err := smtp.SendMail(b.Addr(), nil, "a@example.com", []string{"b@example.com"},
		[]byte("Message-ID: <x@example.com>\r\n\r\nHello.\r\n")); err != nil {
		t.Fatal(err)
	}
	if len(b.Mails()) != 1 {
		t.Errorf("%d mails are kept, want 1", len(b.Mails()))
	}
}

func TestMailboxKeep(t *testing.T) {
	b := mailbox(t, MailboxOptions{Keep: 2, Dedup: true})
	for i := range 7 {
		err := smtp.SendMail(b.Addr(), nil, "a@example.com", []string{"b@example.com"},
			fmt.Appendf(nil, "Message-ID: <%d@example.com>\r\n\r\nHello.\r\n", i))
		if err != nil {
			t.Fatal(err)
		}
	}
	m := b.Mails()
	if len(m) < 2 || len(m) > 4 || m[len(m)-1].ID != 7 || m[len(m)-1].MessageID != "<6@example.com>" {
		t.Errorf("of 7 mails these are kept: %+v", m)
	}
}

// What a call says of itself is read alike whether its task is a name or a number.
func TestSaid(t *testing.T) {
	for body, want := range map[string]Said{
		`{"tx":"a.1","index":2,"task":"t7"}`: {"a.1", 2, "t7"},
		`{"tx":"a.1","index":2,"task":7}`:    {"a.1", 2, "7"},
	} {
		e := Entry{Body: []byte(body)}
		if got, err := e.Said(); err != nil || got != want {
			t.Errorf("%s says %+v, want %+v: %v", body, got, want, err)
		}
	}
	if _, err := (&Entry{Body: []byte("no JSON")}).Said(); err == nil {
		t.Error("what is no JSON says something")
	}
}

// With bursts a drawn fault meets the requests that follow it, and what an entry does is done once for each.
func TestLedgerBursts(t *testing.T) {
	done := 0
	l := ledger(t, LedgerOptions{Faults: Faults{Seed: 3, Refuse: .2, Burst: 3}, Do: func(e Entry) json.RawMessage {
		done++
		return json.RawMessage(`"` + e.Key + `"`)
	}})
	const n = 100
	lengths, row := map[int]int{}, 0
	for i := range n {
		if post(t, l, fmt.Sprint("k", i), "", `{}`) == http.StatusServiceUnavailable {
			row++
		} else if row > 0 {
			lengths[row%3]++
			row = 0
		}
	}
	if len(lengths) != 1 || lengths[0] < 5 {
		t.Errorf("bursts by their length over three: %v", lengths)
	}
	if post(t, l, l.Entries()[0].Key, "", `{}`); done != len(l.Entries()) || done == n || done == 0 {
		t.Errorf("%d were done for %d entries", done, len(l.Entries()))
	}
	if e := l.Entries()[0]; string(e.Result) != `"`+e.Key+`"` {
		t.Errorf("entry %+v", e)
	}
}
