package tables

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// branchRuns are the rows of Atomix about branches of which one is chosen, about how transactions end, and about
// processes that are killed.
func branchRuns() map[string]run {
	return map[string]run{"A14": cyclic, "A15": leftByKind, "A16": leftByWidth, "A17": overlapping, "A30": speculating,
		"A34": killed, "A38": stopped, "A40": dirty, "A44": lastOfFive, "A45": apartAlike}
}

// group is branches that are worked on at once; one of them is chosen.
type group struct {
	run   string
	width int
	wins  int
}

// branch is the name that a branch gives all that it makes.
func (g group) branch(i int) string { return fmt.Sprintf("%s-%d", g.run, i) }

// groupsOf are so many groups of a width.
func groupsOf(run string, n, width int) (all []group) {
	for i := range n {
		all = append(all, group{fmt.Sprintf("%s-%d-%d", run, width, i), width, i % width})
	}
	return all
}

// sides are the names of winners and of losers.
func sides(all []group) (won, lost []string) {
	for _, g := range all {
		for i := range g.width {
			if i == g.wins {
				won = append(won, g.branch(i))
			} else {
				lost = append(lost, g.branch(i))
			}
		}
	}
	return won, lost
}

// speculate lets the branches of a group act on Hence, each at some kinds of sinks, and chooses one. Mails are sent
// by a tool of the caller's.
func (g group) speculate(ctx context.Context, c *client.Client, mail string, at ...int) error {
	made, err := c.Speculate(ctx, g.width, client.BeginOptions{})
	if err != nil {
		return err
	}
	for i, tx := range made.Branches() {
		args := map[string]string{"name": g.branch(i)}
		for _, kind := range at {
			switch kind {
			case mailbox:
				_, err = tx.Effect(ctx, mail, args, client.EffectOptions{})
			case files:
				_, err = tx.Effect(ctx, "file.write", args, client.EffectOptions{})
			case table:
				args["value"] = "chosen"
				_, err = tx.Effect(ctx, "row.put", args, client.EffectOptions{})
				delete(args, "value")
			case buffer:
				err = tx.Write(ctx, scope(g.branch(i)), []byte("chosen"), client.WriteOptions{})
			}
			if err != nil {
				return err
			}
		}
	}
	winner := made.Branches()[g.wins]
	if _, err := made.Select(ctx, winner); err != nil {
		return err
	}
	if _, err := winner.Seal(ctx); err != nil {
		return err
	}
	for i, tx := range made.Branches() {
		d, err := untilFinal(ctx, tx)
		if err == nil && (d.State == api.StateCommitted) != (i == g.wins) {
			err = fmt.Errorf("branch %d, where %d is chosen, is %s: %s", i, g.wins, d.State, d.Code)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wired is a way of working without branches: calls at some kinds of sinks wait for the choice; the others are made at
// once, and taken back where something does.
type wired struct {
	name  string
	waits [kinds]bool
}

// wirings are the ways of the paper: what their wiring covers beside rows, files and buffers is the mailbox, or not.
func wirings() []wired {
	return []wired{
		{"saga", [kinds]bool{}},
		{"optimistic store", [kinds]bool{files: true, table: true, buffer: true}},
		{"try-confirm-cancel without mails", [kinds]bool{files: true, table: true, buffer: true}},
		{"try-confirm-cancel for all", [kinds]bool{mailbox: true, files: true, table: true, buffer: true}},
		{"log and rollback without mails", [kinds]bool{}},
		{"log and rollback for all", [kinds]bool{mailbox: true}},
	}
}

// without lets the branches of a group act on the services themselves.
func (g group) without(ctx context.Context, s *services, m *memory, way wired, at ...int) error {
	later, undo := make([][]func() error, g.width), make([][]func() error, g.width)
	for i := range g.width {
		for _, kind := range at {
			do, back := s.direct(ctx, kind, g.branch(i), m)
			if way.waits[kind] {
				later[i] = append(later[i], do)
				continue
			}
			if err := do(); err != nil {
				return fmt.Errorf("act without Hence: %w", err)
			}
			if back != nil {
				undo[i] = append(undo[i], back)
			}
		}
	}
	for i := range g.width {
		steps := later[i]
		if i != g.wins {
			steps = undo[i]
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("end a branch without Hence: %w", err)
			}
		}
	}
	return nil
}

// aftermath is what a way of working has left at each kind of sink.
type aftermath struct {
	name          string
	won, lost     [kinds]int
	wins, losings int
}

// clean says whether all winners are at each of these kinds of sinks, once, and no loser is.
func (a aftermath) clean(at ...int) bool {
	ok := a.wins > 0 && a.losings > 0
	for _, kind := range at {
		ok = ok && a.won[kind] == a.wins && a.lost[kind] == 0
	}
	return ok
}

// String is what of losers is left.
func (a aftermath) String() string {
	var words []string
	for kind, name := range kindNames() {
		if a.lost[kind] > 0 {
			words = append(words, name+" "+of(a.lost[kind], a.losings))
		}
	}
	if words == nil {
		return a.name + ": nothing"
	}
	return a.name + ": " + strings.Join(words, ", ")
}

// everywhere are all kinds of sinks.
func everywhere() []int { return []int{mailbox, files, table, buffer} }

// after runs groups in all ways: on Hence, on Hence with a wrong class of mails, and without Hence.
func (e *Env) after(ctx context.Context, n, width int, at ...int) (all []aftermath, err error) {
	const agents = 4
	s, place, err := e.onServices(ctx, agents)
	if err != nil {
		return nil, err
	}
	defer s.close()
	m := newMemory()
	count := func(name, run string, groups []group, buffered func(string) (bool, error)) error {
		won, lost := sides(groups)
		a := aftermath{name: name, wins: len(won), losings: len(lost)}
		var err error
		if a.won, err = s.left(won, buffered); err == nil {
			a.lost, err = s.left(lost, buffered)
		}
		all = append(all, a)
		return err
	}
	for i, mail := range []string{"mail.send", "mail.eager"} {
		run := fmt.Sprint("hence", i)
		groups := groupsOf(run, n, width)
		err := shared(agents, n, func(w, i int) error {
			return groups[i].speculate(ctx, place.Agents[w], mail, at...)
		})
		if err == nil {
			err = count([]string{"Hence", "mails of a wrong class"}[i], run, groups, func(name string) (bool, error) {
				got, err := place.Agents[0].Look(ctx, scope(name))
				return got.Exists, err
			})
		}
		if err != nil {
			return nil, err
		}
	}
	for i, way := range wirings() {
		run := fmt.Sprint("without", i)
		groups := groupsOf(run, n, width)
		err := shared(agents, n, func(_, i int) error { return groups[i].without(ctx, s, m, way, at...) })
		if err == nil {
			err = count(way.name, run, groups, func(name string) (bool, error) {
				values, _ := m.read([]string{name})
				return values[name] != "", nil
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// asWired says whether each other way leaves all mails of losers, unless its wiring holds mails, and nothing else.
func asWired(all []aftermath) bool {
	ok := len(all) > 2
	for i, a := range all[1:] {
		want := [kinds]int{mailbox: a.losings}
		if i > 0 && wirings()[i-1].waits[mailbox] {
			want[mailbox] = 0
		}
		ok = ok && a.lost == want && a.won[mailbox] == a.wins
	}
	return ok
}

func leftByKind(ctx context.Context, e *Env) (Result, error) {
	const width = 5
	all, err := e.after(ctx, e.of(2, 250), width, everywhere()...)
	if err != nil {
		return Result{}, err
	}
	var others []string
	for _, a := range all[1:] {
		others = append(others, a.String())
	}
	ours := all[0]
	return Result{
		Ours: fmt.Sprintf("of %d losing branches: mailbox %d, files %d, rows %d, buffer %d; winners are there: %v",
			ours.losings, ours.lost[mailbox], ours.lost[files], ours.lost[table], ours.lost[buffer],
			ours.clean(everywhere()...)),
		Baseline: "left of losers: " + strings.Join(others, "; "),
		Verdict:  holds(ours.clean(everywhere()...) && asWired(all)),
		Note: "rows are those of a service over HTTP, written at once and removed again, in place of a database; " +
			"the wrong class is Hence with mails declared as if they could be undone"}, nil
}

func leftByWidth(ctx context.Context, e *Env) (Result, error) {
	n := e.of(1, 200)
	var ours, wrong, saga []string
	ok := true
	for _, width := range []int{2, 4, 8, 16} {
		all, err := e.after(ctx, n, width, mailbox)
		if err != nil {
			return Result{}, err
		}
		ok = ok && all[0].clean(mailbox) && asWired(all)
		ours = append(ours, of(all[0].lost[mailbox], all[0].losings))
		wrong = append(wrong, of(all[1].lost[mailbox], all[1].losings))
		saga = append(saga, of(all[2].lost[mailbox], all[2].losings))
	}
	return Result{Ours: "mails of losing branches: " + strings.Join(ours, ", "),
		Baseline: "saga: " + strings.Join(saga, ", ") + "; Hence with mails of a wrong class: " + strings.Join(wrong, ", "),
		Verdict:  holds(ok),
		Note:     "with two, four, eight and sixteen branches; the other ways of A15 were run, too"}, nil
}

// speculated is what one speculation took.
type speculated struct{ begun, committed, over float64 }

// speculation measures branches that write one shard each: until they are open, until the chosen one is committed, and
// until the others are over.
func speculation(ctx context.Context, c *client.Client, run string, width int) (s speculated, err error) {
	began := time.Now()
	since := func() float64 { return float64(time.Since(began).Microseconds()) / 1000 }
	g, err := c.Speculate(ctx, width, client.BeginOptions{})
	if err != nil {
		return s, err
	}
	s.begun = since()
	for i, tx := range g.Branches() {
		if err := tx.Write(ctx, scope(fmt.Sprint(run, "-", i)), []byte("text"), client.WriteOptions{}); err != nil {
			return s, err
		}
	}
	if _, err := g.Select(ctx, g.Branches()[0]); err != nil {
		return s, err
	}
	if ok, err := committed(g.Branches()[0].Seal(ctx)); err != nil || !ok {
		return s, fmt.Errorf("the chosen branch is committed: %v: %w", ok, err)
	}
	s.committed = since()
	for _, tx := range g.Branches() {
		if _, err := untilFinal(ctx, tx); err != nil {
			return s, err
		}
	}
	s.over = since()
	return s, nil
}

// separately does the same with transactions that know nothing of each other.
func separately(ctx context.Context, c *client.Client, run string, width int) (ms float64, err error) {
	began := time.Now()
	for i := range width {
		tx, err := c.Begin(ctx, client.BeginOptions{})
		if err == nil {
			err = tx.Write(ctx, scope(fmt.Sprint(run, "-", i)), []byte("text"), client.WriteOptions{})
		}
		if err == nil && i > 0 {
			err = tx.Abort(ctx, "another one is chosen")
		} else if err == nil {
			_, err = tx.Seal(ctx)
		}
		if err == nil {
			_, err = untilFinal(ctx, tx)
		}
		if err != nil {
			return 0, err
		}
	}
	return float64(time.Since(began).Microseconds()) / 1000, nil
}

func speculating(ctx context.Context, e *Env) (Result, error) {
	place, err := e.Ground.Workspace(ctx, 1, 1, "")
	if err != nil {
		return Result{}, err
	}
	c, n := place.Agents[0], e.of(3, 200)
	widths := []int{2, 4, 8, 16}
	lines := make([]report.Line, 4)
	for i, name := range []string{"open", "committed", "over", "transactions by themselves"} {
		lines[i].Name = name
	}
	if _, err := speculation(ctx, c, "first", widths[0]); err != nil { // what only the first one takes
		return Result{}, err
	}
	var words, others []string
	for _, width := range widths {
		var all [4][]float64
		for i := range n {
			run := fmt.Sprintf("cost-%d-%d", width, i)
			s, err := speculation(ctx, c, run, width)
			if err != nil {
				return Result{}, err
			}
			alone, err := separately(ctx, c, run+"-alone", width)
			if err != nil {
				return Result{}, err
			}
			for k, ms := range []float64{s.begun, s.committed, s.over, alone} {
				all[k] = append(all[k], ms)
			}
		}
		for k := range all {
			slices.Sort(all[k])
			lines[k].X = append(lines[k].X, float64(width))
			lines[k].Y = append(lines[k].Y, report.Quantile(all[k], .5))
		}
		last := len(lines[0].Y) - 1
		words = append(words, fmt.Sprintf("%d branches: %s, %s, %s, at the end %s ms", width, digits(lines[0].Y[last]),
			digits(lines[1].Y[last]), digits(lines[2].Y[last]), digits(report.Quantile(all[2], .99))))
		others = append(others, digits(lines[3].Y[last])+" ms")
	}
	total, last := lines[2].Y, len(widths)-1
	growth, most := total[last]/total[0], float64(widths[last])/float64(widths[0])
	return Result{
		Ours: fmt.Sprintf("open, committed, all over: %s; %s times from the fewest to the most branches",
			strings.Join(words, "; "), digits(growth)),
		Baseline: "as many transactions one by one, all but one aborted: " + strings.Join(others, ", "),
		Verdict:  holds(growth <= most),
		Note: "the paper's figures are steps of an object in memory, in microseconds; ours go through HTTP and wait for a " +
			"log that keeps them, which is milliseconds. What is judged is that the whole grows at most as the branches do",
		Plots: []report.Plot{{Title: "milliseconds by branches", Lines: lines}}}, nil
}

// alike is what the work of several rows came to in one place.
type alike struct {
	orders sum
	mails  aftermath
}

// everyone runs an order that all agents act on, and branches, on agents wherever they are.
func (e *Env) everyone(ctx context.Context, s *services, agents []*client.Client, run string) (a alike, err error) {
	rounds, n := e.of(3, 100), e.of(2, 100)
	const width = 4
	a.orders, err = onOneOrder(ctx, run+"-orders", len(agents), rounds, e.thought(75*time.Millisecond),
		seat{agents: agents}.do)
	if err != nil {
		return a, err
	}
	groups := groupsOf(run, n, width)
	err = shared(len(agents), n, func(w, i int) error {
		return groups[i].speculate(ctx, agents[w], "mail.send", mailbox, table)
	})
	if err != nil {
		return a, err
	}
	won, lost := sides(groups)
	nothing := func(string) (bool, error) { return false, nil }
	a.mails = aftermath{name: run, wins: len(won), losings: len(lost)}
	if a.mails.won, err = s.left(won, nothing); err == nil {
		a.mails.lost, err = s.left(lost, nothing)
	}
	return a, err
}

// ok says whether nothing was done twice, and nothing of losers is left.
func (a alike) ok() bool {
	return a.orders.rounds > 0 && a.orders.extra == 0 && a.mails.clean(mailbox, table)
}

// String is what it came to.
func (a alike) String() string {
	return fmt.Sprintf("%d violations in %d rounds, %s losing branches have left a mail and %d a row", a.orders.extra,
		a.orders.rounds, of(a.mails.lost[mailbox], a.mails.losings), a.mails.lost[table])
}

func apartAlike(ctx context.Context, e *Env) (Result, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	const agents = 4
	nodes := e.of(2, agents)
	s, place, processes, err := e.onProcesses(ctx, nodes, agents/nodes)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	apart, err := e.everyone(ctx, s, place.Agents, "apart")
	if err != nil {
		return Result{}, err
	}
	var killed fates
	k := &killing{s, processes[0], place.Agents[:1], []string{"row.pay"}}
	for i := range e.of(1, 20) {
		got, err := k.kill(ctx, fmt.Sprint("killed-", i), afterEffect)
		if err != nil {
			return Result{}, err
		}
		killed.add(got[0])
	}
	here, hereAt, err := e.onServices(ctx, agents)
	if err != nil {
		return Result{}, err
	}
	defer here.close()
	one, err := e.everyone(ctx, here, hereAt.Agents, "here")
	if err != nil {
		return Result{}, err
	}
	bare, err := onOneOrder(ctx, "bare", agents, apart.orders.rounds, e.thought(75*time.Millisecond), newMemory().none)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("%d processes: %v; of %d calls under a kill %d are lost and %d twice", nodes, apart, killed.n,
			killed.lost, killed.twice),
		Baseline: fmt.Sprintf("all in one process: %v; no control: %d violations", one, bare.extra),
		Verdict: holds(apart.ok() && one.ok() && killed.n > 0 && killed.lost+killed.twice+killed.listed == 0 &&
			bare.extra > 0),
		Note: "the work of A08, A16 and A34 in sidecar processes, over one broker and one group of processors in this " +
			"process, on one machine: neither several brokers nor machines were run"}, nil
}
