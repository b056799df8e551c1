package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// refusing commits three sends, the second of which the service refuses for good. It says whether the list of residues
// names exactly what has not left, and that as partial.
func refusing(ctx context.Context, c *client.Client, run string) (told bool, err error) {
	tx, err := c.Begin(ctx, client.BeginOptions{})
	for i, tool := range []string{"row.send", "row.refused", "row.send"} {
		if err == nil {
			_, err = tx.Effect(ctx, tool, map[string]string{"name": fmt.Sprint(run, "-", i)}, client.EffectOptions{})
		}
	}
	var done bool
	if err == nil {
		done, err = committed(tx.Seal(ctx))
	}
	if err == nil && !done {
		err = errors.New("three sends were not committed")
	}
	if err == nil {
		_, err = untilFinal(ctx, tx)
	}
	if err != nil {
		return false, err
	}
	const recent = 64 // the newest come first
	list, err := c.Residue(ctx, client.ResidueQuery{Limit: recent})
	if err != nil {
		return false, err
	}
	named := map[uint32]string{}
	for _, r := range list.Items {
		if r.Tx == tx.ID() {
			named[r.Index] = r.Result
		}
	}
	return len(named) == 2 && named[1] == "partial" && named[2] == "partial", nil
}

func stopped(ctx context.Context, e *Env) (Result, error) {
	const agents = 2
	s, place, err := e.onServices(ctx, agents)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	n := e.of(4, 200)
	named := make([]bool, n)
	err = shared(agents, n, func(w, i int) (err error) {
		named[i], err = refusing(ctx, place.Agents[w], fmt.Sprint("ours-", i))
		return err
	})
	if err != nil {
		return Result{}, err
	}
	told, first, third, direct := 0, 0, 0, 0
	for i := range n {
		if named[i] {
			told++
		}
		first += len(s.values(fmt.Sprint("ours-", i, "-0")))
		third += len(s.values(fmt.Sprint("ours-", i, "-2")))
		// The calls of one turn, as they come: that one is refused does not stop the next.
		run := fmt.Sprint("direct-", i)
		for k, verb := range []string{"put", "refuse", "put"} {
			if err := s.post(ctx, verb, "", entry{Name: fmt.Sprint(run, "-", k), Value: "sent"}); (err != nil) != (k == 1) {
				return Result{}, fmt.Errorf("send %d without Hence: %w", k, err)
			}
		}
		direct += len(s.values(run + "-2"))
	}
	return Result{
		Ours: fmt.Sprintf("residue is partial and names what has not left in %s; the first has left in %s, once, the "+
			"third in %d", of(told, n), of(first, n), third),
		Baseline: "calls as they come: the third has left in " + of(direct, n),
		Verdict:  holds(told == n && first == n && third == 0 && direct == n),
		Note:     "what has left is not on the list: the calls of the transaction say it, and the list what is missing"}, nil
}

// reading is a transaction that reads a row by a tool and keeps what it saw.
func reading(ctx context.Context, c *client.Client, name string) (tx *client.Tx, saw string, err error) {
	tx, err = c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return nil, "", err
	}
	got, err := tx.Effect(ctx, "row.get", map[string]string{"name": name}, client.EffectOptions{})
	if err != nil {
		return tx, "", err
	}
	var row entry
	if err := json.Unmarshal(got.Result, &row); err != nil {
		return tx, "", fmt.Errorf("read a row's value: %w: %s", err, got.Result)
	}
	return tx, row.Value, tx.Write(ctx, scope(name), []byte(row.Value), client.WriteOptions{})
}

// again says whether an attempt is to be made once more: it was refused, and may be repeated.
func again(d client.Decision, err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Retryable || err == nil && d.State != api.StateCommitted && d.Retryable
}

// seen is what readers beside a call that is undone came to.
type seen struct{ dirty, refused, committed int }

// besideUndone lets one agent make a call that is seen at once and take it back, while another one rests on it. Late
// ones seal only after that.
func besideUndone(ctx context.Context, writer, reader *client.Client, name string, late bool) (out seen, err error) {
	w, err := writer.Begin(ctx, client.BeginOptions{})
	if err == nil {
		_, err = w.Effect(ctx, "row.put", map[string]string{"name": name, "value": "not final"}, client.EffectOptions{})
	}
	if err != nil {
		return out, err
	}
	tx, saw, err := reading(ctx, reader, name)
	if err == nil && saw == "" {
		err = errors.New("a call that was made at once is not seen")
	}
	if err != nil {
		return out, err
	}
	var undoing sync.WaitGroup
	var undone error
	undoing.Go(func() {
		if undone = w.Abort(ctx, "it is undone"); undone == nil {
			_, undone = untilFinal(ctx, w)
		}
	})
	if late {
		undoing.Wait()
	}
	for {
		d, err := tx.Seal(ctx)
		if err == nil && d.State == api.StateCommitted {
			out.committed++
			if saw != "" {
				out.dirty++
			}
			break
		}
		if p := (*client.Problem)(nil); err != nil && !errors.As(err, &p) {
			return out, err
		}
		out.refused++
		undoing.Wait() // what is read from now on is final
		if undone != nil {
			return out, undone
		}
		if tx, saw, err = reading(ctx, reader, name); err != nil && !again(client.Decision{}, err) {
			return out, err
		}
	}
	undoing.Wait()
	return out, undone
}

func dirty(ctx context.Context, e *Env) (Result, error) {
	const pairs = 4
	s, place, err := e.onServices(ctx, 2*pairs)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	n := e.of(8, 1_000)
	all := make([]seen, n)
	err = shared(pairs, n, func(w, i int) (err error) {
		all[i], err = besideUndone(ctx, place.Agents[2*w], place.Agents[2*w+1], fmt.Sprint("ours-", i), i/pairs%2 == 1)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	var ours seen
	for _, one := range all {
		ours.dirty, ours.refused = ours.dirty+one.dirty, ours.refused+one.refused
		ours.committed += one.committed
	}
	saga, m := 0, newMemory() // each step at once, and the compensation later
	for i := range n {
		name := fmt.Sprint("saga-", i)
		put, undo := s.direct(ctx, table, name, m)
		if err := put(); err != nil {
			return Result{}, fmt.Errorf("put without Hence: %w", err)
		}
		saw := s.has(name)
		if err := undo(); err != nil {
			return Result{}, fmt.Errorf("undo without Hence: %w", err)
		}
		if m.write(map[string]string{name: fmt.Sprint(saw)}, nil) && saw && !s.has(name) {
			saga++
		}
	}
	return Result{
		Ours: fmt.Sprintf("%s commits rest on what was undone; %d seals were refused", percent(ours.dirty, ours.committed),
			ours.refused),
		Baseline: "saga: " + of(saga, n),
		Verdict:  holds(ours.dirty == 0 && ours.committed == n && ours.refused >= n && saga == n),
		Note: "each reader has seen the call before it was undone; in every other round it seals only afterwards. " +
			"Refused ones read again and commit"}, nil
}

// writes makes five calls of one planned turn, which come in an order of their own and take a while each.
func (s *services) writes(ctx context.Context, c *client.Client, tool, name string, order []int, ms []int) error {
	return turn(ctx, c, tool, order, func(k int) any {
		return map[string]string{"name": name, "value": strconv.Itoa(k), "ms": strconv.Itoa(ms[k])}
	})
}

// issued says whether a name's values came in the order of issue, and whether the last one stands.
func (s *services) issued(name string, width int) (ordered, wins bool) {
	came := s.values(name)
	ordered = len(came) == width
	for i, value := range came {
		ordered = ordered && value == strconv.Itoa(i)
	}
	return ordered, len(came) == width && came[width-1] == strconv.Itoa(width-1)
}

// takes draws how long each of some calls takes, of at most so many milliseconds.
func takes(chance *rand.Rand, width, most int) (ms []int) {
	for range width {
		ms = append(ms, chance.IntN(most+1))
	}
	return ms
}

func lastOfFive(ctx context.Context, e *Env) (Result, error) {
	const width = 5
	agents := e.of(8, 64)
	s, place, err := e.onServices(ctx, agents)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	n, chance := e.of(8, 1_000), e.chance("last of five")
	var words, others []string
	ok := true
	for _, most := range []int{50, 500} {
		if !e.Full {
			most /= 5
		}
		orders, ms := make([][]int, n), make([][]int, n)
		for i := range n {
			orders[i], ms[i] = shuffled(chance, width), takes(chance, width, most)
		}
		for _, tool := range []string{"row.later", "row.now"} {
			name := func(i int) string { return fmt.Sprint(tool, "-", most, "-", i) }
			err := shared(agents, n, func(w, i int) error {
				return s.writes(ctx, place.Agents[w], tool, name(i), orders[i], ms[i])
			})
			if err != nil {
				return Result{}, err
			}
			good := 0
			for i := range n {
				if ordered, wins := s.issued(name(i), width); ordered && wins {
					good++
				}
			}
			ok = ok && good == n
			words = append(words, of(good, n))
		}
		direct := 0
		name := func(i int) string { return fmt.Sprint("direct-", most, "-", i) }
		err := shared(agents, n, func(_, i int) error {
			return together(width, func(k int) error {
				if err := pause.Sleep(ctx, time.Duration(slices.Index(orders[i], k))*time.Millisecond); err != nil {
					return err
				}
				return s.post(ctx, "put", "", entry{Name: name(i), Value: strconv.Itoa(k), Ms: strconv.Itoa(ms[i][k])})
			})
		})
		if err != nil {
			return Result{}, err
		}
		for i := range n {
			if _, wins := s.issued(name(i), width); wins {
				direct++
			}
		}
		ok = ok && direct < n
		others = append(others, of(direct, n))
	}
	return Result{Ours: "in the order of issue, and the last wins: " + strings.Join(words, ", "),
		Baseline: "each call by itself: the last wins in " + strings.Join(others, ", "), Verdict: holds(ok),
		Note: "held and at once, with short and ten times longer delays at the service; the calls come in an order of " +
			"their own, of which the plan says how they were issued. A look has a fifth of the delays"}, nil
}
