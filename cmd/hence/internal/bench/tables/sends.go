package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// cause is why work comes to nothing after it has issued a send.
type cause string

const (
	noCause   cause = "valid"
	toolFails cause = "a failed tool"
	lost      cause = "a lost branch"
	staleRead cause = "a stale read"
	vetoed    cause = "a veto"
	timesOut  cause = "a timeout"
)

func causes() []cause { return []cause{toolFails, lost, staleRead, vetoed, timesOut} }

// code is how Hence calls it.
func (c cause) code() string {
	return map[cause]string{toolFails: "tool_failed", lost: "lost_branch", staleRead: "stale_read", vetoed: "vetoed",
		timesOut: "tool_failed"}[c]
}

// likes is a judge that says no to the runs that are to be vetoed.
func likes(args map[string]any) bool {
	return !strings.Contains(fmt.Sprint(args["run"]), string(vetoed))
}

// plainSinks are the ends of sends.
func plainSinks() []string { return []string{"mail", "web"} }

// gated makes attempts on Hence: each in a transaction that takes a part and sends, whose end waits for what may go
// wrong.
type gated struct {
	place Place
	verb  string // of the tools: send, or early for those with a wrong class
}

// attempt makes one, and says whether it ended as it is meant to. Agents come in pairs: the second one overtakes.
func (g gated) attempt(ctx context.Context, pair int, run, sink string, c cause) (landed bool, err error) {
	agent, other := g.place.Agents[2*pair], g.place.Agents[2*pair+1]
	tx, settle, err := opened(ctx, agent, c)
	if err != nil {
		return false, err
	}
	cell := scope("cell/" + run)
	if _, err = tx.Read(ctx, cell); err != nil {
		return false, err
	}
	args := map[string]string{"run": run, "part": "wheel"}
	if _, err = tx.Effect(ctx, "part.take", args, client.EffectOptions{}); err != nil {
		return false, err
	}
	args = map[string]string{"run": run}
	if _, err = tx.Effect(ctx, sink+"."+g.verb, args, client.EffectOptions{}); err != nil {
		return false, err
	}
	switch c {
	case toolFails, timesOut:
		tool := map[cause]string{toolFails: "part.fail", timesOut: "part.hang"}[c]
		_, err = tx.Effect(ctx, tool, args, client.EffectOptions{})
		if p := (*client.Problem)(nil); errors.As(err, &p) {
			err = nil // how it stands is asked below
		}
	case staleRead:
		_, err = other.Put(ctx, cell, []byte("moved"), client.WriteOptions{})
	case lost:
		err = settle()
	}
	if err != nil {
		return false, err
	}
	d, err := tx.Seal(ctx)
	if err != nil {
		return false, err
	}
	d, err = untilFinal(ctx, tx)
	if c == noCause {
		return d.State == api.StateCommitted, err
	}
	return d.State == api.StateAborted && d.Code == c.code(), err
}

// opened begins the transaction; of a branch that is to lose, settle chooses another one.
func opened(ctx context.Context, agent *client.Client, c cause) (tx *client.Tx, settle func() error, err error) {
	if c != lost {
		tx, err = agent.Begin(ctx, client.BeginOptions{})
		return tx, nil, err
	}
	group, err := agent.Speculate(ctx, 2, client.BeginOptions{})
	if err != nil {
		return nil, nil, err
	}
	winner := group.Branches()[0]
	return group.Branches()[1], func() error {
		_, err := group.Select(ctx, winner)
		if err == nil {
			_, err = winner.Seal(ctx)
		}
		return err
	}, nil
}

// wrong is what goes wrong without Hence, for real.
func (o *outside) wrong(run string, c cause) func(context.Context) error {
	m := newMemory()
	return map[cause]func(context.Context) error{
		toolFails: func(ctx context.Context) error {
			_, err := o.post(ctx, o.broken+"/fail", nil)
			return err
		},
		timesOut: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			_, err := o.post(ctx, o.broken+"/hang", nil)
			return err
		},
		lost: func(context.Context) error { return errors.New("another branch was chosen") },
		staleRead: func(context.Context) error {
			_, read := m.read([]string{run})
			m.write(map[string]string{run: "moved"}, nil)
			if m.write(map[string]string{run: "mine"}, read) {
				return nil
			}
			return errors.New("what was read has moved")
		},
		vetoed: func(ctx context.Context) error {
			asked := map[string]any{"effects": []any{map[string]any{"args": map[string]string{"run": run}}}}
			said, err := o.post(ctx, o.judge, asked)
			if err == nil && !strings.Contains(string(said), "true") {
				err = errors.New("the hook says no")
			}
			return err
		},
	}[c]
}

// sender makes an attempt for one of several workers.
type sender struct {
	name string
	do   func(ctx context.Context, worker int, run, sink string, c cause) (landed bool, err error)
}

// senders are the ways that are compared: Hence, the same with a wrong class, and those without it.
func (e *Env) senders(ctx context.Context, o *outside, workers int) ([]sender, error) {
	place, err := e.Ground.Open(ctx, Site{Nodes: 1, Agents: 2 * workers, Policy: o.rules, HookURL: o.judge,
		Quiet: true})
	if err != nil {
		return nil, err
	}
	all := []sender{{"Hence", gated{place, "send"}.attempt}, {"a wrong class", gated{place, "early"}.attempt}}
	for _, way := range []struct {
		name string
		do   func(context.Context, work) error
	}{{"no transactions", noTx}, {"saga", saga}, {"replay", replay}, {"try and confirm", tcc},
		{"lock and log", new(wal).do}} {
		all = append(all, sender{way.name, func(ctx context.Context, _ int, run, sink string, c cause) (bool, error) {
			return true, way.do(ctx, work{out: o, run: run, sink: sink, wrong: o.wrong(run, c)})
		}})
	}
	return all, nil
}

// left is how sends of one way and cause came out.
type left struct{ runs, once, never, often, landed int }

// sends makes attempts of every way for each of the causes, and looks in the sinks what has left.
func (e *Env) sends(ctx context.Context, each int, of []cause) (names []string, found [][]left, err error) {
	workers := e.of(5, 8)
	o, err := openOutside(ctx, "gate.yaml", likes)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	ways, err := e.senders(ctx, o, workers)
	if err != nil {
		return nil, nil, err
	}
	type trial struct {
		cause     int
		sink, run string
	}
	for _, way := range ways {
		names = append(names, way.name)
		var trials []trial
		for n, c := range of {
			for i := range each {
				for _, sink := range plainSinks() {
					trials = append(trials, trial{n, sink, fmt.Sprintf("%s %s %s %d", way.name, c, sink, i)})
				}
			}
		}
		landed := make([]bool, len(trials))
		err := together(workers, func(worker int) (err error) {
			for i := worker; i < len(trials) && err == nil; i += workers {
				t := trials[i]
				if landed[i], err = way.do(ctx, worker, t.run, t.sink, of[t.cause]); err != nil {
					err = fmt.Errorf("%s: %w", t.run, err)
				}
			}
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		sent, err := o.sent()
		if err != nil {
			return nil, nil, err
		}
		row := make([]left, len(of))
		for i, t := range trials {
			at := &row[t.cause]
			at.runs++
			if landed[i] {
				at.landed++
			}
			switch sent[t.run] {
			case 0:
				at.never++
			case 1:
				at.once++
			default:
				at.often++
			}
		}
		found = append(found, row)
	}
	return names, found, nil
}

// all adds what causes came to.
func all(row []left) (out left) {
	for _, l := range row {
		out.runs, out.once, out.never = out.runs+l.runs, out.once+l.once, out.never+l.never
		out.often, out.landed = out.often+l.often, out.landed+l.landed
	}
	return out
}

func invalidSends(ctx context.Context, e *Env) (Result, error) {
	names, found, err := e.sends(ctx, e.of(1, 100), causes())
	if err != nil {
		return Result{}, err
	}
	leaks := func(i int) int { return all(found[i]).runs - all(found[i]).never }
	ours, wrong := all(found[0]), all(found[1])
	ok := leaks(0) == 0 && ours.landed == ours.runs && wrong.landed == wrong.runs && ours.runs > 0
	var others []string
	for i := range names {
		if i == 0 {
			continue
		}
		var by []string
		for _, l := range found[i] {
			by = append(by, fmt.Sprint(l.runs-l.never))
		}
		others = append(others, fmt.Sprintf("%s %s (%s)", names[i], of(leaks(i), all(found[i]).runs),
			strings.Join(by, ", ")))
		ok = ok && (leaks(i) > 0) == !slices.Contains([]string{"try and confirm", "lock and log"}, names[i])
	}
	return Result{
		Ours: fmt.Sprintf("left: %s; all were aborted by the cause that was meant: %v", percent(leaks(0), ours.runs),
			ours.landed == ours.runs),
		Baseline: strings.Join(others, "; "),
		Verdict:  holds(ok),
		Note: "in parentheses by the source of the abort: a failed tool, a lost branch, a stale read, a veto, a timeout; " +
			"half are mails and half requests. The paper's table is decided by the names of ways and sources, not run: " +
			"here every way learns that its work is over, and what it has sent by then has left, so a saga leaks under a " +
			"veto, too, a replay under each source, and so does a class that is wrong, where the paper has none"}, nil
}

func validSends(ctx context.Context, e *Env) (Result, error) {
	names, found, err := e.sends(ctx, e.of(2, 500), []cause{noCause})
	if err != nil {
		return Result{}, err
	}
	ours, ok := found[0][0], true
	var others []string
	for i := range names {
		l := found[i][0]
		ok = ok && l.once == l.runs && l.landed == l.runs && l.runs > 0
		if i > 0 {
			others = append(others, fmt.Sprintf("%s %s", names[i], of(l.once, l.runs)))
		}
	}
	return Result{Ours: fmt.Sprintf("left, each once: %s; %d not, %d more than once", percent(ours.once, ours.runs),
		ours.never, ours.often),
		Baseline: strings.Join(others, "; "), Verdict: holds(ok)}, nil
}

// around lets agents act around the gate, in work that is then vetoed, and tell of it afterwards.
func around(ctx context.Context, e *Env) (res Result, err error) {
	o, err := openOutside(ctx, "gate.yaml", func(map[string]any) bool { return false })
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	place, err := e.Ground.Open(ctx, Site{Nodes: 1, Agents: 1, HookURL: o.judge})
	if err != nil {
		return Result{}, err
	}
	n, named, reported := e.of(4, 100), 0, 0
	results := []string{"leaked", "unresolved"}
	for i := range n {
		run := fmt.Sprint("around ", i)
		at := fmt.Sprint("account:/", i)
		tx, err := place.Agents[0].Begin(ctx, client.BeginOptions{})
		if err == nil {
			_, err = tx.Touch(ctx, []client.Want{{Scope: at, Access: "write"}}, client.TouchOptions{})
		}
		if err == nil {
			err = o.web(ctx, run) // the tool, around the gate
		}
		var d client.Decision
		if err == nil {
			d, err = tx.Seal(ctx)
		}
		if err == nil && (d.State != api.StateAborted || d.Code != vetoed.code()) {
			err = fmt.Errorf("what was to be vetoed is %s: %s", d.State, d.Code)
		}
		if err == nil {
			d, err = tx.Settle(ctx, []client.SettledEffect{{Scopes: []string{at}, Result: results[i%2]}}, true)
		}
		if err == nil {
			_, err = untilFinal(ctx, tx)
		}
		if err != nil {
			return Result{}, err
		}
		seen, err := listed(ctx, place.Agents[0], tx.ID())
		if err != nil {
			return Result{}, err
		}
		if len(seen) == 1 && seen[0].Result == results[i%2] && slices.Contains(seen[0].Scopes, at) {
			named++
		}
		// Beside it a saga, around which the same is done.
		if err := o.web(ctx, run+" saga"); err != nil {
			return Result{}, err
		}
		veto := func(context.Context) error { return errors.New("the hook says no") }
		kept, err := sagaOf(ctx, []step{sagaTake(work{out: o, run: run}, 0), {do: veto}})
		if err != nil {
			return Result{}, err
		}
		reported += len(kept)
	}
	sent, err := o.sent()
	stood := 0
	for _, times := range sent {
		stood += times
	}
	return Result{Ours: fmt.Sprintf("named as residue, with its scope and its result: %s", percent(named, n)),
			Baseline: fmt.Sprintf("a saga names %s", of(reported, n)),
			Verdict:  holds(named == n && n > 0 && reported == 0 && stood == 2*n),
			Note: "the agent touches the scope before it acts, and says in its settlement what became of it; of one that " +
				"says nothing the residue is unresolved after its bound. What is done without a touch nothing here can see"},
		err
}

// listed is what the list of residues has of a transaction; it may come a moment after the transaction is final.
func listed(ctx context.Context, c *client.Client, tx string) (found []client.Residue, err error) {
	const looks = 200
	for range looks {
		list, err := c.Residue(ctx, client.ResidueQuery{Limit: 100})
		if err != nil {
			return nil, err
		}
		for _, r := range list.Items {
			if r.Tx == tx {
				found = append(found, r)
			}
		}
		if len(found) > 0 {
			break
		}
		if err := pause.Sleep(ctx, 5*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// gateRuns are the rows about effects: what leaves, what is taken back, and what a policy says of it.
func gateRuns() map[string]run {
	return map[string]run{"A19": invalidSends, "A20": validSends, "A21": around, "A22": linesToDeclare, "A23": tagged,
		"A24": wrongClass, "A28": stepCost, "A32": hooked, "A35": oneName, "A36": annotated, "A37": linesOfAdapters,
		"A41": onceEach}
}

// outside is what tools act on: a mail server, a service with a ledger, and a service that fails and hangs. It also
// has a hook, which is asked over HTTP whether work may be kept.
type outside struct {
	ledger *sinks.Ledger
	mail   *sinks.Mailbox
	broken string // /fail answers with an error, /hang does not answer
	rules  string // the policy of tools over these
	judge  string
	client *http.Client
	end    context.CancelFunc
}

// openOutside starts the services, and reads the policy of that name with their addresses in it. The caller closes
// them. A run whose arguments the judge does not like is vetoed.
func openOutside(ctx context.Context, policy string, judge func(args map[string]any) bool) (o *outside, err error) {
	serving, end := context.WithCancel(ctx)
	o = &outside{end: end, client: &http.Client{Transport: new(http.Transport)}}
	broken := http.NewServeMux()
	broken.HandleFunc("/fail", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	broken.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server sees a sender go only once it has read all
		<-r.Context().Done()
	})
	if o.broken, err = serve(serving, broken); err == nil {
		o.judge, err = serve(serving, judging(judge))
	}
	if err == nil {
		o.ledger, err = sinks.StartLedger(sinks.LedgerOptions{})
	}
	if err == nil {
		o.mail, err = sinks.StartMailbox(sinks.MailboxOptions{})
	}
	if err == nil {
		o.rules, err = o.read(policy)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start what tools act on: %w", err), o.close())
	}
	return o, nil
}

// close ends the services.
func (o *outside) close() (err error) {
	o.end()
	o.client.CloseIdleConnections()
	if o.ledger != nil {
		err = o.ledger.Close()
	}
	if o.mail != nil {
		err = errors.Join(err, o.mail.Close())
	}
	return err
}

// judging is a hook.
func judging(likes func(args map[string]any) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Effects []struct {
				Args map[string]any `json:"args"`
			} `json:"effects"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		yes := true
		for _, e := range in.Effects {
			yes = yes && likes(e.Args)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"yes": yes, "reason": "it is not what was asked for"})
	})
}

// read reads a policy of the folder of claims over these services.
func (o *outside) read(name string) (string, error) {
	text, err := claims.ReadFile("claims/" + name)
	if err != nil {
		return "", fmt.Errorf("read the policy of a row: %w", err)
	}
	broken, err := url.Parse(o.broken)
	if err != nil {
		return "", fmt.Errorf("read where a service is: %w", err)
	}
	return strings.NewReplacer("{{ledger}}", o.ledger.Addr(), "{{mail}}", o.mail.Addr(), "{{broken}}",
		broken.Host).Replace(string(text)), nil
}

// sent is how often each run has left, by either way.
func (o *outside) sent() (map[string]int, error) {
	all := map[string]int{}
	for _, e := range o.ledger.Entries() {
		if e.Path != "/send" {
			continue
		}
		var body struct {
			Run string `json:"run"`
		}
		if err := json.Unmarshal(e.Body, &body); err != nil {
			return nil, fmt.Errorf("read what the ledger has: %w", err)
		}
		all[body.Run]++
	}
	for _, m := range o.mail.Mails() {
		all[m.Subject]++
	}
	return all, nil
}

// post asks a service for something as a program without Hence does.
func (o *outside) post(ctx context.Context, at string, body any, headers ...string) (answer []byte, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call a service: %w", err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("a service answered %s", resp.Status)
	}
	return answer, err
}

// letter sends a mail.
func (o *outside) letter(run string) error {
	text := fmt.Sprintf("From: agent@example.com\r\nTo: customer@example.com\r\nSubject: %s\r\n\r\nIt is done.\r\n", run)
	err := smtp.SendMail(o.mail.Addr(), nil, "agent@example.com", []string{"customer@example.com"}, []byte(text))
	if err != nil {
		return fmt.Errorf("send a mail: %w", err)
	}
	return nil
}

// web tells the service of the ledger, without a key.
func (o *outside) web(ctx context.Context, run string) error {
	_, err := o.post(ctx, o.ledger.URL()+"/send", map[string]string{"run": run})
	return err
}

// take takes a part for a run, and give gives it back.
func (o *outside) take(ctx context.Context, run string, part int) error {
	_, err := o.post(ctx, o.ledger.URL()+"/take", map[string]any{"run": run, "tx": run, "index": part},
		"Idempotency-Key", fmt.Sprint(run, "/", part))
	return err
}

func (o *outside) give(ctx context.Context, run string, part int) error {
	_, err := o.post(ctx, o.ledger.URL()+"/give", map[string]any{"run": run, "tx": run, "index": part},
		"Hence-Compensates", fmt.Sprint(run, "/", part))
	return err
}
