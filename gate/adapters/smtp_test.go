package adapters

import (
	"errors"
	"io"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/sinks"
)

func startMailbox(t *testing.T, o sinks.MailboxOptions) *sinks.Mailbox {
	t.Helper()
	b, err := sinks.StartMailbox(o)
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

func mailEnv(b *sinks.Mailbox) gate.Env {
	return gate.Env{Mail: &gate.Mail{Server: b.Addr(), From: "Shop <shop@example.com>", TLS: "none"}}
}

func mailSpec() gate.SMTPSpec {
	return gate.SMTPSpec{To: []string{"{to}"}, Subject: "Order {order?}", Text: "Dear customer,\n{text?}\n.\n"}
}

func TestSMTPSends(t *testing.T) {
	b := startMailbox(t, sinks.MailboxOptions{})
	a := build(t, gate.KindSMTP, mailEnv(b), mailSpec())
	for range 2 {
		must(t, a, call("order/7", `{"to":"Ann <ann@example.com>","order":"Größe 7","text":"grüß dich"}`))
	}
	must(t, a, call("order/8", `{"to":"ann@example.com"}`))
	mails := b.Mails()
	if len(mails) != 3 || mails[0].MessageID != mails[1].MessageID || mails[0].MessageID == mails[2].MessageID {
		t.Fatalf("the names of the mails: %+v", mails)
	}
	m := mails[0]
	if m.From != "shop@example.com" || m.To[0] != "ann@example.com" || m.Subject != "Order Größe 7" {
		t.Errorf("the mail is %+v", m)
	}
	parsed, err := mail.ReadMessage(strings.NewReader(string(m.Raw)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(parsed.Body))
	if err != nil || !strings.Contains(strings.ReplaceAll(string(text), "\r", ""), "\ngrüß dich\n.\n") {
		t.Errorf("its text is %q, %v", text, err)
	}
	if _, err := a.LookUp(t.Context(), call("k", `{}`)); !errors.Is(err, gate.ErrNoLookup) {
		t.Errorf("looking a mail up: %v", err)
	}
}

func TestSMTPRefusals(t *testing.T) {
	b := startMailbox(t, sinks.MailboxOptions{})
	spec := mailSpec()
	spec.Cc = []string{"refuse@example.com"}
	a, err := build(t, gate.KindSMTP, mailEnv(b), spec).Call(t.Context(), call("k", `{"to":"ann@example.com"}`))
	if err != nil || !a.Refused {
		t.Errorf("one recipient is refused: %+v, %v", a, err)
	}
	dot := startMailbox(t, sinks.MailboxOptions{RefuseAfterDot: true})
	a, err = build(t, gate.KindSMTP, mailEnv(dot), mailSpec()).Call(t.Context(), call("k", `{"to":"ann@example.com"}`))
	if err != nil || !a.Refused {
		t.Errorf("the mail is refused: %+v, %v", a, err)
	}
	busy := startMailbox(t, sinks.MailboxOptions{Faults: sinks.Faults{Refuse: 1}})
	_, err = build(t, gate.KindSMTP, mailEnv(busy), mailSpec()).Call(t.Context(), call("k", `{"to":"ann@example.com"}`))
	if !errors.Is(err, gate.ErrNotSent) {
		t.Errorf("the server says 451: %v; want ErrNotSent", err)
	}
	if n := len(b.Mails()) + len(dot.Mails()) + len(busy.Mails()); n != 0 {
		t.Errorf("%d mails were taken", n)
	}
}

func TestSMTPHeadersStayHeaders(t *testing.T) {
	b := startMailbox(t, sinks.MailboxOptions{})
	a := build(t, gate.KindSMTP, mailEnv(b), mailSpec())
	for _, args := range []string{
		`{"to":"ann@example.com","order":"7\r\nBcc: eve@example.com"}`,
		`{"to":"ann@example.com","order":"7\nX: y"}`,
		`{"to":"a\r\nRCPT TO:<eve@example.com>@example.com"}`,
		`{"to":"\"@x:eve\"@example.com"}`, `{"to":"\"ann@evil\"@example.com"}`, // without the quotes they are routes
	} {
		if _, err := a.Call(t.Context(), call("k", args)); !errors.Is(err, gate.ErrNotSent) {
			t.Errorf("%s: %v; want ErrNotSent", args, err)
		}
	}
	if len(b.Mails()) != 0 {
		t.Errorf("%d mails left", len(b.Mails()))
	}
}

func TestSMTPAuth(t *testing.T) {
	b := startMailbox(t, sinks.MailboxOptions{User: "shop", Password: "s3cret-word"})
	env := mailEnv(b)
	env.Mail.User, env.Mail.PasswordSecret = "shop", "mail"
	for password, refused := range map[string]bool{"s3cret-word": false, "wrong-word": true} {
		env.Secret = func(string) (string, error) { return password, nil }
		a, err := build(t, gate.KindSMTP, env, mailSpec()).Call(t.Context(), call("k", `{"to":"ann@example.com"}`))
		if err != nil || a.Refused != refused || strings.Contains(a.Detail, password) {
			t.Errorf("password %s: %+v, %v", password, a, err)
		}
	}
	env.Mail.TLS = "starttls"
	got, err := build(t, gate.KindSMTP, env, mailSpec()).Call(t.Context(), call("k", `{"to":"a@example.com"}`))
	if err == nil && !got.Refused {
		t.Error("a mail left in clear although STARTTLS is asked for")
	}
	if len(b.Mails()) != 1 {
		t.Errorf("%d mails, want 1", len(b.Mails()))
	}
}

// TestSMTPForbidsNothing: a mail that undoes a call not known to have come is not sent. A mail server keeps no keys.
func TestSMTPForbidsNothing(t *testing.T) {
	b := startMailbox(t, sinks.MailboxOptions{})
	a := build(t, gate.KindSMTP, mailEnv(b), mailSpec())
	back := call("k/undo", `{"to":"ann@example.com"}`)
	back.Compensates = "k"
	must(t, a, back)
	back.ForbidOnly = true
	if got, err := a.Call(t.Context(), back); err != nil || !got.Refused || len(b.Mails()) != 1 {
		t.Errorf("%+v, %v; %d mails", got, err, len(b.Mails()))
	}
}
