package harness

import (
	"bytes"
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/it/check"
	"github.com/hence-dev/hence/sidecar"
)

// shopPolicy declares the shop's tools; the addresses of the sinks are filled in when they run.
//
//go:embed shop.yaml
var shopPolicy string

// Shop is what tool calls of a test move: a ledger, a mailbox and a folder, each real. They close with the test.
type Shop struct {
	Ledger *sinks.Ledger
	Broken *sinks.Ledger // it acts, never answers, and takes no key
	Mail   *sinks.Mailbox
	Root   string // of the files
	// Address stands in for the ledger's in policies made from now on; empty: the ledger's own.
	Address  string
	MaxTime  time.Duration // of a call, in policies made from now on
	Attempts int           // of a release or a compensation, in policies made from now on
	Changed  bool          // policies made from now on declare mail.send in another way
}

// OpenShop starts the sinks on loopback.
func OpenShop(tb testing.TB) *Shop {
	tb.Helper()
	return OpenShopAt(tb, "127.0.0.1")
}

// OpenShopAt starts the sinks on an address of this machine, where containers reach them.
func OpenShopAt(tb testing.TB, host string) *Shop {
	tb.Helper()
	listen := net.JoinHostPort(host, "0")
	s := &Shop{Root: filepath.Join(tb.TempDir(), "files"), MaxTime: 5 * time.Second, Attempts: 5}
	err := os.MkdirAll(s.Root, 0o755)
	if err == nil {
		s.Ledger, err = sinks.StartLedger(sinks.LedgerOptions{Listen: listen})
	}
	if err == nil {
		s.Broken, err = sinks.StartLedger(sinks.LedgerOptions{Listen: listen, KeyLess: true, Faults: sinks.Faults{Lose: 1}})
	}
	if err == nil {
		s.Mail, err = sinks.StartMailbox(sinks.MailboxOptions{Listen: listen})
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		for _, c := range []interface{ Close() error }{s.Ledger, s.Broken, s.Mail} {
			if err := c.Close(); err != nil {
				tb.Error(err)
			}
		}
	})
	return s
}

// Tools loads the shop's policy with its adapters, as the binary does.
func (s *Shop) Tools(tb testing.TB) *policy.Policy {
	tb.Helper()
	p, err := policy.Load([]byte(s.Policy(tb)), policy.Options{File: "shop.yaml", Build: adapters.Build})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Policy is the text of the shop's policy file.
func (s *Shop) Policy(tb testing.TB) string {
	tb.Helper()
	values := struct {
		Ledger, Broken, Mail, Root, Changed string
		MaxTimeMs                           int64
		Attempts                            int
	}{s.Address, s.Broken.Addr(), s.Mail.Addr(), s.Root, "", s.MaxTime.Milliseconds(), s.Attempts}
	if values.Ledger == "" {
		values.Ledger = s.Ledger.Addr()
	}
	if s.Changed {
		values.Changed = " In other words."
	}
	var text bytes.Buffer
	t, err := template.New("shop.yaml").Parse(shopPolicy)
	if err == nil {
		err = t.Execute(&text, values)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return text.String()
}

// Sidecars starts n sidecars over the shop, named agent-1 and so on.
func (s *Shop) Sidecars(tb testing.TB, d *Deployment, n int) []*Sidecar {
	tb.Helper()
	return d.SidecarsWith(tb, n, sidecar.Config{Tools: s.Tools(tb)})
}

// SidecarsApart is Sidecars with a folder for the files of each agent: a root takes one call at a time.
func (s *Shop) SidecarsApart(tb testing.TB, d *Deployment, n int) []*Sidecar {
	tb.Helper()
	var cfgs []sidecar.Config
	for i := range n {
		own := *s
		own.Root = filepath.Join(s.Root, fmt.Sprint("agent-", i+1))
		if err := os.MkdirAll(own.Root, 0o755); err != nil {
			tb.Fatal(err)
		}
		cfgs = append(cfgs, sidecar.Config{Agent: fmt.Sprint("agent-", i+1), Tools: own.Tools(tb)})
	}
	return d.SidecarsOf(tb, cfgs)
}

// Did is one thing that the ledger did.
type Did struct {
	sinks.Said
	At               int
	Path             string
	Key, Compensates string
}

// Did lists what the ledger did, in order.
func (s *Shop) Did(tb testing.TB) (all []Did) {
	tb.Helper()
	for _, e := range s.Ledger.Entries() {
		d := Did{At: e.ID, Path: e.Path, Key: e.Key, Compensates: e.Compensates}
		var err error
		if d.Said, err = e.Said(); err != nil {
			tb.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// Charges are the charges as checkers read them, in the ledger's order.
func (s *Shop) Charges(tb testing.TB) (all []check.Sent) {
	tb.Helper()
	for _, d := range s.Did(tb) {
		if d.Path == "/charge" {
			all = append(all, check.Sent{At: d.At, Tx: d.Tx, Index: d.Index, Key: d.Key})
		}
	}
	return all
}

// Mails are the mails as checkers read them, in the mailbox's order, and the task of each.
func (s *Shop) Mails(tb testing.TB) (all []check.Sent, tasks []string) {
	tb.Helper()
	for _, m := range s.Mail.Mails() {
		sent, parts := check.Sent{At: m.ID}, strings.Fields(m.Subject)
		if len(parts) == 3 {
			sent.Tx = parts[0]
			if _, err := fmt.Sscan(parts[1], &sent.Index); err == nil {
				all, tasks = append(all, sent), append(tasks, parts[2])
				continue
			}
		}
		tb.Fatalf("mail %d has the subject %q", m.ID, m.Subject)
	}
	return all, tasks
}

// Standing are the rows that were added and not removed, by the key of the call that added them.
func (s *Shop) Standing(tb testing.TB) map[string]Did {
	tb.Helper()
	rows := map[string]Did{}
	for _, d := range s.Did(tb) {
		switch d.Path {
		case "/add":
			rows[d.Key] = d
		case "/remove":
			delete(rows, d.Compensates)
		}
	}
	return rows
}

// File is a file's content; empty: there is none.
func (s *Shop) File(tb testing.TB, path string) string {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(s.Root, path))
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	return string(content)
}

// Files are the names of the files in a folder.
func (s *Shop) Files(tb testing.TB, folder string) (names []string) {
	tb.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Root, folder))
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
