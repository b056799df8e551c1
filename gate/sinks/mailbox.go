package sinks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/mail"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/hence-dev/hence/topology/pause"
)

const (
	maxMailBytes = 1 << 20
	maxMails     = 1 << 20
)

// Mail is one mail that was taken.
type Mail struct {
	ID        int       `json:"id"` // 1-based, in the order in which it was taken
	MessageID string    `json:"messageId"`
	From      string    `json:"from"`
	To        []string  `json:"to"`
	Subject   string    `json:"subject"`
	Raw       []byte    `json:"raw"`
	At        time.Time `json:"at"`
}

// MailboxOptions is what a mailbox is made of.
type MailboxOptions struct {
	Listen         string // host:port; a free port of loopback when empty
	Faults         Faults // F1 says 451 and keeps nothing; F2 and F5 keep it and say nothing; F4 takes it twice
	Dedup          bool   // a mail whose Message-ID it has is taken again without being kept again
	User, Password string // when set, senders must authenticate
	TLS            *tls.Config
	RefuseAfterDot bool // it says 554 to every mail, having kept none
	Keep           int  // how many of the latest are kept at least; zero: all
}

// Mailbox is a mail server that keeps the mails that it takes.
type Mailbox struct {
	o       MailboxOptions
	server  *smtp.Server
	listen  net.Listener
	serving sync.WaitGroup
	dice    *dice
	stop    context.CancelFunc
	stopped context.Context

	mu    sync.Mutex
	mails []Mail
	taken int // mails so far
	ids   map[string]bool
}

// StartMailbox listens. The caller closes it.
func StartMailbox(o MailboxOptions) (*Mailbox, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	listen, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("starting the mailbox: %w", err)
	}
	b := &Mailbox{o: o, listen: listen, dice: newDice(o.Faults), ids: map[string]bool{}}
	b.stopped, b.stop = context.WithCancel(context.Background())
	b.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{box: b, conn: c}, nil
	}))
	b.server.Domain = "localhost"
	b.server.MaxMessageBytes = maxMailBytes
	b.server.MaxRecipients = 100
	b.server.ReadTimeout, b.server.WriteTimeout = 30*time.Second, 30*time.Second
	b.server.TLSConfig = o.TLS
	b.server.AllowInsecureAuth = true // loopback
	b.server.ErrorLog = silent{}
	b.serving.Go(func() { _ = b.server.Serve(listen) }) // ends with Close
	return b, nil
}

// silent drops what the server says of connections that ended: that is what the faults do.
type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// Addr is its host:port.
func (b *Mailbox) Addr() string { return b.listen.Addr().String() }

// Close stops it and returns when everything of it has ended.
func (b *Mailbox) Close() error {
	b.stop()
	err := b.server.Close()
	_ = b.listen.Close() // the server does not know it yet when it was only just started
	b.serving.Wait()
	if err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("closing the mailbox: %w", err)
	}
	return nil
}

// SetFaults changes what is injected from now on, and seeds the draws again.
func (b *Mailbox) SetFaults(f Faults) { b.dice.set(f) }

// Injected counts the faults so far.
func (b *Mailbox) Injected() Injected { return b.dice.injected() }

// Mails returns the mails that are kept, in order.
func (b *Mailbox) Mails() []Mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mails)
}

// Duplicates is how many mails have the Message-ID of an earlier one.
func (b *Mailbox) Duplicates() int {
	seen, n := map[string]bool{}, 0
	for _, m := range b.Mails() {
		if seen[m.MessageID] {
			n++
		}
		seen[m.MessageID] = true
	}
	return n
}

func (b *Mailbox) keep(m Mail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.o.Dedup && m.MessageID != "" && b.ids[m.MessageID] || len(b.mails) >= maxMails {
		return
	}
	b.ids[m.MessageID] = true
	b.taken++
	m.ID, m.At = b.taken, time.Now().UTC()
	b.mails = append(b.mails, m)
	if b.o.Keep > 0 && len(b.mails) > 2*b.o.Keep {
		for _, old := range b.mails[:len(b.mails)-b.o.Keep] {
			delete(b.ids, old.MessageID)
		}
		b.mails = slices.Clone(b.mails[len(b.mails)-b.o.Keep:])
	}
}

// mailSession is one sender's connection.
type mailSession struct {
	box  *Mailbox
	conn *smtp.Conn
	in   bool // authenticated
	from string
	to   []string
}

// AuthMechanisms says how a sender can authenticate.
func (s *mailSession) AuthMechanisms() []string {
	if s.box.o.User == "" {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth checks a user and password.
func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.box.o.User || password != s.box.o.Password {
			return smtp.ErrAuthFailed
		}
		s.in = true
		return nil
	}), nil
}

// Mail begins a mail.
func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	if s.box.o.User != "" && !s.in {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return nil
}

// Rcpt adds a recipient; one whose name starts with "refuse" is not known here.
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if len(to) >= 6 && to[:6] == "refuse" {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox"}
	}
	s.to = append(s.to, to)
	return nil
}

// Data takes the mail.
func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("reading the mail: %w", err)
	}
	m := Mail{From: s.from, To: slices.Clone(s.to), Raw: raw}
	if parsed, err := mail.ReadMessage(bytes.NewReader(raw)); err == nil {
		m.MessageID = parsed.Header.Get("Message-ID")
		m.Subject = parsed.Header.Get("Subject")
		if plain, err := new(mime.WordDecoder).DecodeHeader(m.Subject); err == nil {
			m.Subject = plain
		}
	}
	if s.box.o.RefuseAfterDot {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "not wanted"}
	}
	f := s.box.dice.draw(false)
	if f.refuse {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "out of order for a moment"}
	}
	if f.late {
		s.box.dice.mu.Lock()
		delay := s.box.dice.faults.Delay
		s.box.dice.mu.Unlock()
		if pause.Sleep(s.box.stopped, delay) != nil {
			return errors.New("the mailbox is closing")
		}
	}
	s.box.keep(m)
	if f.duplicate {
		s.box.keep(m)
	}
	if f.lose || f.late {
		_ = s.conn.Close() // the fault itself: no answer
	}
	return nil
}

// Reset forgets the mail that was begun.
func (s *mailSession) Reset() { s.from, s.to = "", nil }

// Logout ends the session.
func (s *mailSession) Logout() error { return nil }
