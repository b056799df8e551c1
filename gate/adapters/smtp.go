package adapters

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
)

const maxRecipients = 50

type smtpAdapter struct {
	env     gate.Env
	from    template.Template
	to, cc  []template.Template
	subject template.Template
	text    template.Template
}

func newSMTP(d gate.Decl) (gate.Adapter, error) {
	spec, err := readSpec[gate.SMTPSpec](d)
	if err != nil {
		return nil, err
	}
	switch {
	case d.Env.Mail == nil:
		return nil, errors.New("no mail server is declared: add \"mail\" to the policy")
	case len(spec.To) == 0:
		return nil, errors.New("it names no recipient: write \"to\"")
	}
	if _, _, err := net.SplitHostPort(d.Env.Mail.Server); err != nil {
		return nil, fmt.Errorf("mail.server %q: write host:port", d.Env.Mail.Server)
	}
	if spec.From == "" {
		spec.From = d.Env.Mail.From
	}
	p := &parser{}
	a := &smtpAdapter{env: d.Env, from: p.text("from", spec.From), to: p.list("to", spec.To), cc: p.list("cc", spec.Cc),
		subject: p.text("subject", spec.Subject), text: p.text("text", spec.Text)}
	return a, p.err
}

// LookUp cannot know: mail servers do not say what they took.
func (a *smtpAdapter) LookUp(context.Context, gate.Call) (gate.Answer, error) {
	return gate.Answer{}, gate.ErrNoLookup
}

// Check writes the mail without sending it.
func (a *smtpAdapter) Check(c gate.Call) error {
	_, err := a.compose(c)
	return unsent("writing the mail", err)
}

// Call hands one mail to the server. A mail that is not accepted with 250 is not delivered (RFC 5321, 4.2.5 and 6.1),
// so 5xx at any stage proves that nothing happened. That is about the one try: a server keeps no keys.
func (a *smtpAdapter) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	if c.ForbidOnly {
		return gate.Answer{Refused: true, Detail: "a mail server keeps no keys, so it refuses none: nothing was sent"}, nil
	}
	m, err := a.compose(c)
	if err != nil {
		return gate.Answer{}, unsent("writing the mail", err)
	}
	s := newSecrets(a.env)
	client, stop, err := a.dial(ctx)
	if err != nil {
		return gate.Answer{}, notSent("reaching the mail server: %v", err)
	}
	defer stop()
	if err := a.greet(client, s); err != nil {
		return early(s, "greeting the mail server", err)
	}
	if err := client.Mail(m.from); err != nil {
		return early(s, "naming the sender", err)
	}
	for _, to := range m.to { // one that is refused refuses the mail: no mail goes to half of the recipients
		if err := client.Rcpt(to); err != nil {
			return early(s, "naming a recipient", err)
		}
	}
	w, err := client.Data()
	if err != nil {
		return early(s, "starting the mail", err)
	}
	if _, err := w.Write(m.data); err != nil {
		// Without the final dot a server must not deliver.
		return gate.Answer{}, notSent("sending the mail: %s", s.clean(err.Error()))
	}
	if err := w.Close(); err != nil {
		return late(s, err)
	}
	_ = client.Quit() // the mail is the server's now, whatever becomes of the farewell
	return gate.Answer{Detail: "the mail server took " + m.id, Result: toJSON(map[string]string{"message_id": m.id})}, nil
}

// early judges what happened before the final dot: nothing was delivered, and 5xx says that nothing will be.
func early(s *secrets, doing string, err error) (gate.Answer, error) {
	var reply *textproto.Error
	if errors.As(err, &reply) && reply.Code >= 500 {
		return s.answer(gate.Answer{Refused: true, Detail: s.detail(doing + ": " + reply.Error())}), nil
	}
	return gate.Answer{}, notSent("%s: %s", doing, s.clean(err.Error()))
}

// late judges what happened behind the final dot. 5xx and 4xx say that the mail was not accepted (RFC 5321, 4.2.1);
// 421 may be said of anything while the server goes down; no answer is no knowledge.
func late(s *secrets, err error) (gate.Answer, error) {
	var reply *textproto.Error
	switch {
	case errors.As(err, &reply) && reply.Code >= 500 && reply.Code <= 599:
		return s.answer(gate.Answer{Refused: true, Detail: s.detail("the mail server said " + reply.Error())}), nil
	case errors.As(err, &reply) && reply.Code >= 400 && reply.Code != 421:
		return gate.Answer{}, notSent("the mail server said %s", s.clean(reply.Error()))
	}
	return gate.Answer{}, unknown("no answer to the mail: %s", s.clean(err.Error()))
}

// dial connects; stop ends the connection, as the end of ctx does.
func (a *smtpAdapter) dial(ctx context.Context) (*smtp.Client, func(), error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", a.env.Mail.Server)
	if err != nil {
		return nil, nil, err
	}
	if a.env.Mail.TLS == "tls" {
		conn = tls.Client(conn, a.tls())
	}
	release := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a waiting call on it gets the error
	host, _, _ := net.SplitHostPort(a.env.Mail.Server)             // checked when it was made
	client, err := smtp.NewClient(conn, host)
	stop := func() {
		release()
		_ = conn.Close() // closed by Quit already, or not needed any more
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("waiting for its greeting: %w", err)
	}
	return client, stop, nil
}

func (a *smtpAdapter) tls() *tls.Config {
	host, _, _ := net.SplitHostPort(a.env.Mail.Server) // checked when it was made
	return &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
}

func (a *smtpAdapter) greet(client *smtp.Client, s *secrets) error {
	if err := client.Hello("localhost"); err != nil {
		return err
	}
	m := a.env.Mail
	if m.TLS == "starttls" { // asked for, so a server without it is an error and no reason to go on in clear
		if err := client.StartTLS(a.tls()); err != nil {
			return fmt.Errorf("STARTTLS: %w", err)
		}
	}
	if m.User == "" {
		return nil
	}
	password, err := s.get(m.PasswordSecret)
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(m.Server) // checked when it was made
	// PlainAuth itself refuses to send a password in clear to another machine.
	if err := client.Auth(smtp.PlainAuth("", m.User, password, host)); err != nil {
		return fmt.Errorf("AUTH: %w", err)
	}
	return nil
}

// message is one mail, ready to be sent.
type message struct {
	id, from string
	to       []string
	data     []byte
}

func (a *smtpAdapter) compose(c gate.Call) (message, error) {
	v, err := values(c)
	if err != nil {
		return message{}, err
	}
	from, err := address(a.from, v)
	if err != nil {
		return message{}, fmt.Errorf("from: %w", err)
	}
	m := message{from: from.Address, id: MessageID(c, from.Address)}
	to, err := m.recipients("to", a.to, v)
	if err != nil {
		return message{}, err
	}
	cc, err := m.recipients("cc", a.cc, v)
	if err != nil {
		return message{}, err
	}
	subject, err := a.subject.Expand(v, nil)
	if err != nil {
		return message{}, fmt.Errorf("subject: %w", err)
	}
	if strings.ContainsFunc(subject, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return message{}, errors.New("subject: it holds a control character, which could start another header")
	}
	text, err := a.text.Expand(v, nil)
	if err != nil {
		return message{}, fmt.Errorf("text: %w", err)
	}
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("Message-ID", m.id)
	header("Date", time.Now().UTC().Format(time.RFC1123Z))
	header("From", from.String())
	header("To", strings.Join(to, ", "))
	if len(cc) > 0 {
		header("Cc", strings.Join(cc, ", "))
	}
	header("Subject", mime.QEncoding.Encode("utf-8", subject))
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		return message{}, fmt.Errorf("text: %w", err)
	}
	if err := w.Close(); err != nil {
		return message{}, fmt.Errorf("text: %w", err)
	}
	m.data = b.Bytes()
	return m, nil
}

func (m *message) recipients(what string, list []template.Template, v template.Values) ([]string, error) {
	var shown []string
	for _, t := range list {
		at, err := address(t, v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		m.to = append(m.to, at.Address)
		shown = append(shown, at.String())
	}
	if len(m.to) > maxRecipients {
		return nil, fmt.Errorf("%s: more than %d recipients", what, maxRecipients)
	}
	return shown, nil
}

// address takes exactly one: a value with a comma would be a second recipient, one with a line break another header.
func address(t template.Template, v template.Values) (*mail.Address, error) {
	text, err := t.Expand(v, nil)
	if err != nil {
		return nil, err
	}
	at, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) ||
		strings.ContainsAny(at.Address, "<> \t") {
		return nil, fmt.Errorf("%.80q is not one mail address", text)
	}
	if template.Quoted(at) {
		return nil, fmt.Errorf("%.80q has a name that needs quotes, which is not sent: write name@host", text)
	}
	return at, nil
}

// MessageID is the name of a call's mail: the same for every sending of it, and another one for a call of another log
// or workspace. A compensation without a key has the place of the call that it undoes, and is another mail.
func MessageID(c gate.Call, from string) string {
	of := c.Key
	if of == "" {
		of = fmt.Sprintf("%s/%d without a key, %s", c.Tx, c.Index, fingerprint(c))
	}
	sum := sha256.Sum256([]byte(c.Origin + "\x00" + of))
	return "<" + hex.EncodeToString(sum[:16]) + "@" + from[strings.LastIndexByte(from, '@')+1:] + ">"
}
