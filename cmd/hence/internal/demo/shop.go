package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sidecar/client"
)

// policyText declares the shop's tools; the addresses of the sinks are filled in when they run.
//
//go:embed policy.yaml
var policyText string

// How long the policy lets a call take: in a watched run as long as a policy that does not say.
const (
	callTime        = 400 * time.Millisecond
	watchedCallTime = 5 * time.Second
)

// shop is the outside world of a run: a service with an append-only ledger and a mail server, both real listeners.
type shop struct {
	ledger *sinks.Ledger
	mail   *sinks.Mailbox
	file   string     // the policy, for child processes
	tools  gate.Tools // the policy, for sidecars in this process
	most   time.Duration
}

// openShop starts the sinks and writes the policy that names them into a folder.
func openShop(dir string, c *Config) (*shop, error) {
	s := &shop{file: filepath.Join(dir, "policy.yaml"), most: callTime}
	if c.Watch {
		s.most = watchedCallTime
	}
	lateBy := s.most * 3 / 2
	var err error
	ledger := sinks.LedgerOptions{Faults: sinks.Evenly(c.Faults, c.Seed, lateBy)}
	if s.ledger, err = sinks.StartLedger(ledger); err != nil {
		return nil, fmt.Errorf("start the ledger: %w", err)
	}
	mail := sinks.Evenly(c.Faults, c.Seed+1, lateBy)
	mail.Duplicate = 0 // a mail server that makes two of one is not ours to fix
	if s.mail, err = sinks.StartMailbox(sinks.MailboxOptions{Faults: mail}); err != nil {
		return nil, errors.Join(fmt.Errorf("start the mail server: %w", err), s.ledger.Close())
	}
	if err := s.declare(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *shop) declare() error {
	text := []byte(strings.NewReplacer("{{ledger}}", s.ledger.Addr(), "{{mail}}", s.mail.Addr(), "{{most_ms}}",
		strconv.FormatInt(s.most.Milliseconds(), 10)).Replace(policyText))
	if err := os.WriteFile(s.file, text, 0o600); err != nil {
		return fmt.Errorf("write the demo's policy: %w", err)
	}
	var err error
	s.tools, err = policy.Load(text, policy.Options{File: s.file, Build: adapters.Build})
	return err
}

func (s *shop) close() error { return errors.Join(s.ledger.Close(), s.mail.Close()) }

// arrivals are the effects that the sinks have.
func (s *shop) arrivals() ([]Arrival, error) {
	tools := map[string]string{"/reserve": toolReserve, "/release": toolRelease, "/charge": toolCharge}
	var all []Arrival
	for _, e := range s.ledger.Entries() {
		said, err := e.Said()
		if err != nil {
			return nil, err
		}
		all = append(all, Arrival{Tool: tools[e.Path], Tx: said.Tx, Index: said.Index, Key: e.Key, At: e.At})
	}
	for _, m := range s.mail.Mails() {
		words := strings.Fields(m.Subject) // errand, task, transaction, index
		if len(words) != 4 {
			return nil, fmt.Errorf("the subject of mail %d is %q", m.ID, m.Subject)
		}
		index, err := strconv.Atoi(words[3])
		if err != nil {
			return nil, fmt.Errorf("the subject of mail %d is %q: %w", m.ID, m.Subject, err)
		}
		all = append(all, Arrival{Tool: toolMail, Tx: words[2], Index: index, At: m.At})
	}
	return all, nil
}

// injected counts the faults of both sinks by their names in the table.
func (s *shop) injected() map[string]int {
	all := map[string]int{}
	for _, i := range []sinks.Injected{s.ledger.Injected(), s.mail.Injected()} {
		all["F1 refused before"] += i.Refused
		all["F2 lost after"] += i.Lost
		all["F3 compensation failed"] += i.UndoFailed
		all["F4 delivered twice"] += i.Duplicated
		all["F5 timed out"] += i.Late
	}
	return all
}

// settleBound is how long the effects of a run may take to be settled after its agents have ended.
const settleBound = 2 * time.Minute

// checkEffects waits until every transaction is settled, and compares sinks, log and residue.
func (r *run) checkEffects(ctx context.Context, auditor *client.Client) (*effectsFound, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleBound, errors.New("the effects of the run are not settled"))
	defer cancel()
	if err := r.log.settled(ctx); err != nil {
		return nil, err
	}
	if err := r.shop.ledger.Settled(ctx); err != nil {
		return nil, fmt.Errorf("wait for late requests: %w", err)
	}
	arrived, err := r.shop.arrivals()
	if err != nil {
		return nil, err
	}
	var left []Uncleaned
	for _, tool := range []string{toolReserve, toolRelease, toolCharge, toolMail} { // one list of a long run would be cut
		list, err := auditor.Residue(ctx, client.ResidueQuery{Tool: tool})
		if err != nil {
			return nil, fmt.Errorf("read the residue: %w", err)
		}
		if list.Truncated {
			return nil, fmt.Errorf("there is more residue of %s than one answer lists: run fewer tasks or faults", tool)
		}
		for _, u := range list.Items {
			left = append(left, Uncleaned{Tx: u.Tx, Index: int(u.Index), Tool: u.Tool, Class: u.Class, Result: u.Result})
		}
	}
	found := checkEffects(r.records.all(), r.log.snapshot(), arrived, left)
	found.injected = r.shop.injected()
	return found, nil
}
