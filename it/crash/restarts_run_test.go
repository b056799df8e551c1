package crash

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
)

// restartBound is how long one run may take: up to three starts, each of which may have to wait for a lease.
const restartBound = 2 * time.Minute

// Endings of an agent's name in calls: of transactions that stay open, and of those on the new log.
const (
	asOpen = "-open"
	asOdd  = "-odd"
	asNew  = "-new"
)

// namesake is the script of the new log.
const namesake = "namesake"

// restartScripts are what agents do here beside what crashScripts has. The second has the transactions' names of the
// first: one that is open there is committed here.
func restartScripts() map[string][]crashTx {
	all := crashScripts()
	all["laden"] = []crashTx{
		{end: "open", as: asOpen, calls: calls("reserve", "seat", "charge", "note")},
		{end: "open", as: asOdd, calls: calls("reserve undo "+faultLoseOnce, "seat undo "+faultDropOnce, "away",
			"seat "+faultLose)},
		{end: "commit", calls: calls("reserve "+faultLoseOnce, "charge "+faultDropOnce, "note"), leave: true},
		{end: "commit", calls: calls("charge", "note "+faultLose, "charge")},
		{end: "abort", calls: calls("reserve", "seat "+faultLose)},
		{end: "commit", calls: calls("reserve "+faultDropOnce, "gone")},
		{end: "abort", calls: calls("seat undo "+faultLose, "reserve undo "+faultRefuse)},
	}
	all[namesake] = []crashTx{
		{end: "open", calls: calls("charge", "note", "gone")},
		{end: "open", as: asOpen, calls: calls("reserve", "seat", "note")},
		{seals: 1},
	}
	return all
}

// restartKill is one run: where the first process dies, what becomes of its journal and its log, and where the next
// start dies.
type restartKill struct {
	id        int // draws what is left to chance
	script    string
	at, again crashAt
	journal   string
	fresh     bool // the starts are on a new log, on which the agent has been before, too
}

// String names a run, as HENCE_RESTARTS takes it.
func (k restartKill) String() string {
	log := "old"
	if k.fresh {
		log = "new"
	}
	return fmt.Sprintf("%d %s %s %s %s %s", k.id, k.script, k.at, k.again, k.journal, log)
}

func parseRestart(text string) (k restartKill, err error) {
	var at, again, log string
	if _, err = fmt.Sscan(text, &k.id, &k.script, &at, &again, &k.journal, &log); err != nil {
		return k, err
	}
	k.fresh = log == "new"
	for where, c := range map[string]*crashAt{at: &k.at, again: &k.again} {
		name, nth, _ := strings.Cut(where, ":")
		c.point = failpoint.Point(name)
		if _, err = fmt.Sscan(nth, &c.nth); err != nil {
			return k, fmt.Errorf("%s: %w", where, err)
		}
	}
	return k, nil
}

// restartLab is what all runs share: two logs.
type restartLab struct{ old, fresh *crashLab }

// restartRun is one run.
type restartRun struct {
	tb     testing.TB
	lab    *restartLab
	kill   restartKill
	agent  string
	other  string // another agent, whose journal it may be given
	dir    string
	old    *crashRun
	now    *crashRun // on the log of the starts
	served bool      // the first process has answered its agent
	mate   bool      // the agent had a session on the new log
	lost   bool      // its journal is
	landed bool      // the second kill has
	told   int       // how often the agent was told that its session is lost
	wrong  []string
}

func (l *restartLab) on(tb testing.TB, lab *crashLab, agent string, id int) *crashRun {
	return &crashRun{crashLab: lab, tb: tb, agent: agent,
		workspace: fmt.Sprintf("%s-r%d", l.old.deployment.Workspace, id)}
}

// run kills a sidecar and the start after it, and checks what is left. It says which of the two points were reached.
func (l *restartLab) run(tb testing.TB, kill restartKill) (first, second bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), restartBound)
	defer cancel()
	id := kill.id
	r := &restartRun{tb: tb, lab: l, kill: kill, agent: fmt.Sprintf("one%d", id), other: fmt.Sprintf("two%d", id),
		dir: tb.TempDir()}
	r.old = l.on(tb, l.old, r.agent, id)
	r.now = r.old
	r.old.follow(ctx)
	if !r.first(ctx) {
		return false, false
	}
	var err error
	if r.lost, err = harness.SpoilJournals(r.dir, kill.journal, r.agent, r.other, uint64(id)); err != nil {
		tb.Fatal(err)
	}
	if kill.journal == harness.JournalBehind && !kill.fresh {
		r.elsewhere(ctx)
	}
	if kill.fresh {
		r.now = l.on(tb, l.fresh, r.agent, id)
		r.now.follow(ctx)
		if id%4 != 3 { // else the new log is empty
			r.namesake(ctx)
		}
		if id%2 == 1 {
			r.mislay(ctx)
		}
	}
	before := r.old.sink.of(r.names("")...)
	r.rest(ctx, r.now, &kill.again)
	r.judge(before)
	if kill.fresh && id%3 == 0 { // and back to the first log
		r.rest(ctx, r.old, nil)
		r.wrong = append(r.wrong, r.found(r.old, "")...)
	}
	if len(r.wrong) > 0 {
		words, told := r.old.words, r.old.told
		if kill.fresh {
			words, told = append(words, r.now.words...), append(told, r.now.told...)
		}
		tb.Errorf("HENCE_RESTARTS=%q\n%s\ntold: %q\n%s", kill, strings.Join(r.wrong, "\n"), told,
			strings.Join(words, "\n---\n"))
	}
	return true, r.landed
}

// elsewhere lets the agent's sidecar on another machine settle what it finds, up to some point.
func (r *restartRun) elsewhere(ctx context.Context) {
	points := []failpoint.Point{failpoint.UndoAfterCall, failpoint.ReleaseAfterCall, failpoint.SettleBefore,
		failpoint.UndoBeforeCall, failpoint.SettleAfter, failpoint.UndoAfterAnswer, failpoint.SessionAfter}
	at, dir := crashAt{points[r.kill.id%len(points)], 1}, r.tb.TempDir()
	p, agent := r.old.start(dir, &at)
	if agent != nil {
		if err := r.old.decisions.final(ctx, p.Ended()); err == nil {
			r.end(r.old, p)
			return
		} else if !errors.Is(err, errGone) {
			r.tb.Fatalf("%s: the sidecar elsewhere: %v\n%s", r.kill, err, p.Words())
		}
	}
	r.died(r.old, p, dir, at)
}

// mislay puts the journal of the first log where that of the new one belongs.
func (r *restartRun) mislay(ctx context.Context) {
	from, err := r.lab.old.log.ID(ctx)
	if err != nil {
		r.tb.Fatal(err)
	}
	to, err := r.lab.fresh.log.ID(ctx)
	if err == nil {
		err = harness.CopyJournals(r.dir, url.PathEscape(from), url.PathEscape(to))
	}
	if err != nil {
		r.tb.Fatal(err)
	}
}

// names are what an agent's calls name it on one of the logs.
func (r *restartRun) names(log string) []string {
	return []string{r.agent + log, r.agent + log + asOpen, r.agent + log + asOdd}
}

// first plays the script until the first kill. It reports false when its point was not reached.
func (r *restartRun) first(ctx context.Context) bool {
	p, agent := r.old.start(r.dir, &r.kill.at)
	r.served = agent != nil
	if agent != nil {
		err := agent.play(ctx, restartScripts()[r.kill.script])
		if err == nil {
			err = r.old.decisions.final(ctx, p.Ended(), agent.left...)
		}
		r.old.told = append(r.old.told, agent.last...)
		if err == nil {
			r.end(r.old, p)
			return false
		}
		if !errors.Is(err, errGone) {
			r.tb.Fatalf("%s: the script: %v; told: %q\n%s", r.kill, err, agent.last, p.Words())
		}
	}
	r.died(r.old, p, r.dir, r.kill.at)
	return true
}

// namesake lets the agent's sidecar on another machine work on the new log and die with transactions of the same
// names, one of them committed.
func (r *restartRun) namesake(ctx context.Context) {
	at, dir := crashAt{failpoint.ReleaseBeforeStart, 1}, r.tb.TempDir()
	p, agent := r.now.start(dir, &at)
	if agent == nil {
		r.tb.Fatalf("%s: the sidecar on the new log: %s", r.kill, p.Words())
	}
	r.mate, agent.calls = true, r.agent+asNew
	if err := agent.play(ctx, restartScripts()[namesake]); err != nil && !errors.Is(err, errGone) {
		r.tb.Fatalf("%s: the script on the new log: %v; told: %q\n%s", r.kill, err, agent.last, p.Words())
	}
	<-p.Ended()
	r.died(r.now, p, dir, at)
}

func (r *restartRun) died(on *crashRun, p *harness.Process, dir string, at crashAt) {
	r.panics(p)
	on.died(p, dir, at)
}

func (r *restartRun) end(on *crashRun, p *harness.Process) {
	on.words = append(on.words, p.Words())
	if err := p.Kill(); err != nil {
		r.tb.Error(err)
	}
	r.panics(p)
}

func (r *restartRun) panics(p *harness.Process) {
	for _, line := range p.Panics() {
		r.wrong = append(r.wrong, "a process has panicked: "+line)
	}
}

// rest starts the sidecar again, which may die at a point, and then once more, until all is at rest.
func (r *restartRun) rest(ctx context.Context, on *crashRun, kill *crashAt) {
	for ; ; kill = nil {
		p, agent := on.start(r.dir, kill)
		err := errGone
		if agent != nil {
			err = r.calm(ctx, on, agent, kill == nil)
			on.told = append(on.told, agent.last...)
		}
		if kill != nil && errors.Is(err, errGone) {
			r.landed = true
			r.died(on, p, r.dir, *kill)
			continue
		}
		if err != nil {
			r.wrong = append(r.wrong, fmt.Sprintf("a start does not come to rest: %v", err))
		}
		if r.end(on, p); kill == nil || err != nil {
			return
		}
	}
}

// calm lets all that is owed be settled and writes. The last start also moves again what was moved: of one that dies
// meanwhile only the agent would know what it did.
func (r *restartRun) calm(ctx context.Context, on *crashRun, agent *crashAgent, last bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-agent.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	log := ""
	if on != r.old {
		log = asNew
	}
	err := on.decisions.final(ctx, agent.ended)
	if err == nil {
		err = r.write(ctx, agent)
	}
	for _, name := range r.names(log) {
		if err == nil && last {
			err = agent.probe(ctx, crashScopes(name))
		}
	}
	if err == nil {
		err = on.decisions.final(ctx, agent.ended)
	}
	select {
	case <-agent.ended:
		return errGone
	default:
		return err
	}
}

// maxTold is how often an agent may be told that its session is lost before it can write.
const maxTold = 2

// write is the agent's first write after the restarts: it may be told once to read again.
func (r *restartRun) write(ctx context.Context, agent *crashAgent) error {
	for told := 0; ; {
		d, err := agent.cl.Put(ctx, "shard:/after-"+r.agent, []byte("x"), client.WriteOptions{})
		if err == nil && d.State == "committed" {
			return nil
		}
		var p *client.Problem
		if errors.As(err, &p) && p.Code == "session_lost" {
			r.told++
			if told++; told > maxTold {
				return fmt.Errorf("a 410 that lasts: %w", err)
			}
			continue
		}
		agent.last = append(agent.last, fmt.Sprintf("write: %s %v", d.State, err))
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agent cannot write: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// owed: the agent has to be told that its session is lost: its journal is, or is that of another log, or the log shows
// that a session was alive whose journal is not here.
func (r *restartRun) owed() bool {
	gone := r.kill.journal == harness.JournalGone
	if r.served && !gone && (r.lost || r.kill.fresh) {
		return true
	}
	for _, o := range r.now.decisions.all() {
		if o.Kind == sequencer.OutcomeLeaseEnded && o.Agent == r.agent { // the first one, of the session before the starts
			return strings.HasPrefix(o.Intent, "join:") && (r.mate || r.served && gone && !r.kill.fresh)
		}
	}
	return false
}

// judge says what does not hold on the log of the starts.
func (r *restartRun) judge(before map[spot]deed) {
	log := ""
	if r.kill.fresh {
		log = asNew
		for at, d := range r.old.sink.of(r.names("")...) {
			if d != before[at] {
				r.wrong = append(r.wrong, fmt.Sprintf("%s of another log was called: %+v was %+v", at, d, before[at]))
			}
		}
	}
	if r.owed() && r.told == 0 {
		r.wrong = append(r.wrong, "the agent was never told that its session is lost")
	}
	r.wrong = append(r.wrong, r.found(r.now, log)...)
}

// found is what a log's records and the sink say.
func (r *restartRun) found(on *crashRun, log string) []string {
	c := gather(r.tb, on.deployment.Servers, on.workspace, on.decisions.all(), on.sink.of(r.names(log)...))
	c.journals = on.journals
	c.late = r.kill.journal == harness.JournalBehind
	c.stranger = r.lost || r.kill.fresh || r.kill.journal == harness.JournalBehind
	wrong := c.violations()
	for at := range c.calls {
		if strings.HasPrefix(at.tx, r.other+".") {
			wrong = append(wrong, fmt.Sprintf("the log has %s, which only another agent's journal names", at))
		}
	}
	for at := range on.sink.of(r.other, r.other+asOpen, r.other+asOdd) {
		wrong = append(wrong, fmt.Sprintf("%s was called: only another agent's journal names it", at))
	}
	return wrong
}
