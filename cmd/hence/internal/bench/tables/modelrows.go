package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/report"
	"github.com/hence-dev/hence/topology/pause"
)

// modelRuns are the rows of S-Bus about what stands between agents and their models. The model is a script: what it
// uses, and how it says so, is given.
func modelRuns() map[string]run {
	return map[string]run{"S04": parallel, "S07": hiddenShare, "S08": finders, "S11": decomposition, "S12": vocabularies,
		"S13": threeVendors, "S14": hiddenAges, "S52": inTheWay, "S53": registeredFirst}
}

// keysOf are so many names of shards.
func keysOf(stem string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s_%c%c", stem, 'a'+i/26, 'a'+i%26))
	}
	return keys
}

func parallel(ctx context.Context, e *Env) (Result, error) {
	const short, long, least = 50 * time.Millisecond, 650 * time.Millisecond, .95
	steps, sizes := e.of(2, 8), []int{4, 8, 16}[:e.of(1, 3)]
	t, err := e.talk(ctx, wordPolicy("enforce", keysOf("desk", 16), nil), "")
	if err != nil {
		return Result{}, err
	}
	work := func(key, name string, latency time.Duration, tries int) (refused int, err error) {
		for range steps {
			for {
				seen, err := t.get(ctx, key, name)
				if err == nil {
					_, err = t.say(ctx, question{shape: shapes()[0], agent: name, prompt: key,
						pieces: []string{"the " + key}, thinks: func() error { return pause.Sleep(ctx, latency) }})
				}
				if err != nil {
					return refused, err
				}
				done, err := t.commit(ctx, key, name, "step", seen.Version)
				if err != nil {
					return refused, err
				}
				if done {
					break
				}
				if refused++; refused > tries {
					return refused, nil
				}
			}
		}
		return refused, nil
	}
	var words, shared []string
	ok := true
	for _, latency := range []time.Duration{short, long} {
		for _, agents := range sizes {
			run := fmt.Sprint("desk-", latency, "-", agents)
			keys, one := keysOf(run, agents), run+"-one"
			if err := t.create(ctx, append(keys, one)...); err != nil {
				return Result{}, err
			}
			began := time.Now()
			for i := range keys {
				if _, err := work(keys[i], fmt.Sprint(run, "-alone-", i), latency, 0); err != nil {
					return Result{}, err
				}
			}
			alone := time.Since(began)
			began = time.Now()
			err := together(agents, func(i int) error {
				_, err := work(keys[i], fmt.Sprint(run, "-beside-", i), latency, 0)
				return err
			})
			if err != nil {
				return Result{}, err
			}
			times := alone.Seconds() / time.Since(began).Seconds()
			ok = ok && (latency == short || times >= least*float64(agents))
			words = append(words, fmt.Sprintf("%d agents %s times (%v)", agents, digits(times), latency))
			all := 0
			began = time.Now()
			err = together(agents, func(i int) error {
				refused, err := work(one, fmt.Sprint(run, "-crowd-", i), latency, math.MaxInt)
				t.model.mu.Lock()
				all += refused
				t.model.mu.Unlock()
				return err
			})
			if err != nil {
				return Result{}, err
			}
			shared = append(shared, fmt.Sprintf("%d agents %s times (%v), %d answers refused", agents,
				digits(alone.Seconds()/time.Since(began).Seconds()), latency, all))
		}
	}
	return Result{Ours: "a shard each: " + strings.Join(words, ", "),
		Baseline: "one shard for all, a new answer for each refusal: " + strings.Join(shared, ", "), Verdict: holds(ok),
		Note: fmt.Sprintf("%d steps of a read, an answer, and a commit; one after the other, and all at once. The verdict "+
			"is that of answers after %v: those after %v are near to what the steps cost two cores", steps, long, short)}, nil
}

func hiddenShare(ctx context.Context, e *Env) (Result, error) {
	chance, n := e.chance("hidden"), e.of(40, 2_800)
	keys := keysOf("part", 4)
	var words []string
	ok := true
	for _, truth := range []float64{.25, .5, .75} {
		t, err := e.talk(ctx, wordPolicy("observe", keys, nil), "")
		if err == nil {
			err = t.create(ctx, keys...)
		}
		if err != nil {
			return Result{}, err
		}
		hidden := 0
		for i := range n {
			name, key := fmt.Sprint("agent", i), keys[chance.IntN(len(keys))]
			if chance.Float64() < truth {
				hidden++
			} else if _, err := t.get(ctx, key, name); err != nil {
				return Result{}, err
			}
			_, err := t.say(ctx, question{shape: shapes()[i%3], agent: name, prompt: "go on",
				pieces: []string{"so " + key}})
			if err != nil {
				return Result{}, err
			}
		}
		seen, err := t.covered(ctx)
		if err != nil {
			return Result{}, err
		}
		meter := seen["request"] + seen["answer"]
		ok = ok && meter == hidden && seen["step"] == n-hidden && covers(meter, n, truth)
		words = append(words, fmt.Sprintf("%s of references with %s as input", percent(meter, n), digits(truth)))
	}
	return Result{Ours: "the meter says that no read covers " + strings.Join(words, ", "), Verdict: holds(ok),
		Note: "the share is an input of the script, not an observation about a model: the row shows that the meter " +
			"returns it"}, nil
}

// finding is what a finder has found of what steps used.
type finding struct{ right, wrong, used int }

func (f finding) String() string {
	return fmt.Sprintf("recall %s, precision %s", digits(float64(f.right)/float64(max(1, f.used))),
		digits(float64(f.right)/float64(max(1, f.right+f.wrong))))
}

// mentions are steps of a script: the shard that each uses, and the text that says so.
func mentions(e *Env, keys []string, names map[string][]string, n int) (used, texts []string) {
	chance := e.chance("finders")
	for range n {
		key := keys[chance.IntN(len(keys))]
		text := "then " + key + " it is"
		switch draw := chance.Float64(); {
		case draw < .4:
			text = "then the " + names[key][0] + " it is"
		case draw < .7: // only its description
			text = "what we said about number " + strings.TrimPrefix(key, "part_")
		}
		used, texts = append(used, key), append(texts, text)
	}
	return used, texts
}

func finders(ctx context.Context, e *Env) (Result, error) {
	keys, names := keysOf("part", 8), map[string][]string{}
	for _, key := range keys {
		names[key] = []string{"piece " + strings.TrimPrefix(key, "part_")}
	}
	used, texts := mentions(e, keys, names, e.of(60, 2_100))
	extractor, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Texts []string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		found := []string{}
		for _, text := range in.Texts {
			if _, name, is := strings.Cut(text, "about number "); is {
				found = append(found, "part_"+name)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string][]string{"shards": found})
	}))
	if err != nil {
		return Result{}, err
	}
	find := func(names map[string][]string, extractor string) (out finding, err error) {
		t, err := e.talk(ctx, wordPolicy("enforce", keys, names), extractor)
		if err == nil {
			err = t.create(ctx, keys...)
		}
		if err != nil {
			return out, err
		}
		for i, text := range texts {
			name := fmt.Sprint("agent", i)
			if _, err := t.say(ctx, question{shape: shapes()[i%3], agent: name, prompt: "go on",
				pieces: []string{text}}); err != nil {
				return out, err
			}
			out.used++
			for _, key := range keys {
				_, found, err := t.given(ctx, name, key)
				switch {
				case err != nil:
					return out, err
				case found && key == used[i]:
					out.right++
				case found:
					out.wrong++
				}
			}
		}
		return out, nil
	}
	var all [3]finding
	for i, c := range []struct {
		names     map[string][]string
		extractor string
	}{{nil, ""}, {names, ""}, {names, extractor}} {
		if all[i], err = find(c.names, c.extractor); err != nil {
			return Result{}, err
		}
	}
	wrong := all[0].wrong + all[1].wrong + all[2].wrong
	return Result{Ours: fmt.Sprintf("names and aliases: %v; with an extractor: %v", all[1], all[2]),
		Baseline: fmt.Sprintf("names alone: %v", all[0]),
		Verdict: holds(wrong == 0 && 0 < all[0].right && all[0].right < all[1].right && all[1].right < all[2].right &&
			all[2].right == all[2].used),
		Note: "the shares of names, aliases and descriptions are inputs of the script; the extractor knows the " +
			"descriptions, and nothing is claimed about models"}, nil
}

// uses is what a run of steps came to whose model uses a shard that was read now, before, or never.
type uses struct {
	n, step, earlier, never int
	stale, needless, moved  int // commits that are accepted on what moved, and refused on what did not
	seen                    map[string]int
}

// What the paper says of how references are covered.
const (
	now    = .443
	before = .555
)

// usages runs steps: which read covers a reference is drawn by shares as the paper has them. In every other step the
// shard moves while the model thinks.
func usages(ctx context.Context, e *Env, t *talking, keys []string, form shape, streamed bool, n int) (out uses,
	err error) {
	run := fmt.Sprint(form.name, "-", streamed, "-")
	chance := e.chance("usages") // the same for all shapes
	quiet := func(name, prompt string) error {
		_, err := t.say(ctx, question{shape: form, agent: name, prompt: prompt, pieces: []string{"nothing"}})
		return err
	}
	for i := range n {
		name, note, key := fmt.Sprint(run, i), fmt.Sprint(run, "note-", i), keys[chance.IntN(len(keys))]
		if err := t.create(ctx, note); err != nil {
			return out, err
		}
		draw, moves := math.Mod(float64(i)*math.Phi, 1), i%2 == 0 // evenly: the shares come out as they are
		switch {
		case i == 0: // the share of those that no read covers is near to nothing: one is there in any case
			out.never++
		case draw < now:
			out.step++
			if err = quiet(name, "begin"); err == nil {
				_, err = t.get(ctx, key, name)
			}
		case draw < now+before:
			out.earlier++
			if _, err = t.get(ctx, key, name); err == nil {
				err = quiet(name, "begin")
			}
		default:
			out.never++
		}
		if err != nil {
			return out, err
		}
		in := question{shape: form, agent: name, prompt: "there are " + strings.Join(keys, ", "),
			pieces: []string{"I use " + key + " now"}}
		if streamed {
			in.pieces = []string{"I use " + key[:3], key[3:] + " ", "now"}
		}
		if moves {
			out.moved++
			in.thinks = func() error { return t.move(ctx, key) }
		}
		if _, err := t.say(ctx, in); err != nil {
			return out, err
		}
		done, err := t.commit(ctx, note, name, "by "+key, 0)
		switch {
		case err != nil:
			return out, err
		case done && moves:
			out.stale++
		case !done && !moves:
			out.needless++
		}
		out.n++
	}
	out.seen, err = t.covered(ctx)
	return out, err
}

// exact reports whether the meter has what the script drew, and nothing was decided wrongly.
func (u uses) exact() bool {
	return u.seen["step"] == u.step && u.seen["earlier"] == u.earlier && u.seen["request"]+u.seen["answer"] == u.never &&
		u.stale == 0 && u.needless == 0 && u.moved > 0
}

func decomposition(ctx context.Context, e *Env) (Result, error) {
	keys, n := keysOf("part", 4), e.of(60, 8_400)
	t, err := e.talk(ctx, wordPolicy("enforce", keys, nil), "")
	if err == nil {
		err = t.create(ctx, keys...)
	}
	if err != nil {
		return Result{}, err
	}
	got, err := usages(ctx, e, t, keys, shapes()[0], false, n)
	if err != nil {
		return Result{}, err
	}
	bare, err := e.proxied(ctx, nil)
	if err == nil {
		err = bare.create(ctx, keys...)
	}
	if err != nil {
		return Result{}, err
	}
	theirs, err := usages(ctx, e, bare, keys, shapes()[0], false, n)
	if err != nil {
		return Result{}, err
	}
	share := func(k int) string { return digits(float64(k) / float64(n)) }
	total := got.seen["step"] + got.seen["earlier"] + got.seen["request"] + got.seen["answer"]
	return Result{
		Ours: fmt.Sprintf("step %s, log %s, proxy %s, total %s; %d of %d commits on what had moved, %d needless refusals",
			share(got.seen["step"]), share(got.seen["earlier"]), share(got.seen["request"]+got.seen["answer"]), share(total),
			got.stale, got.moved, got.needless),
		Baseline: fmt.Sprintf("without a proxy: %d commits on what had moved, of %d references without a read", theirs.stale,
			theirs.never),
		Verdict: holds(got.exact() && total == n && covers(got.seen["step"], n, now) &&
			covers(got.seen["earlier"], n, before) && 0 < theirs.stale && theirs.stale <= theirs.never),
		Note: "which read covers a reference is drawn by the paper's shares: the row shows that the meter returns them, " +
			"and that none of them commits when it has moved"}, nil
}

func vocabularies(ctx context.Context, e *Env) (Result, error) {
	const moving = .05
	n, most := e.of(30, 1_000), .01
	var ours, theirs []string
	ok, first, last := true, 0.0, 0.0
	for _, v := range []int{4, 8, 12, 32} {
		keys := keysOf("part", v)
		own, err := e.talk(ctx, wordPolicy("enforce", keys, nil), "")
		if err != nil {
			return Result{}, err
		}
		published, err := e.proxied(ctx, keys)
		if err != nil {
			return Result{}, err
		}
		var false2, true2 [2]int
		for k, t := range []*talking{own, published} {
			if err := t.create(ctx, keys...); err != nil {
				return Result{}, err
			}
			chance := e.chance(fmt.Sprint("vocabulary-", v))
			for i := range n {
				name, note, used := fmt.Sprint("agent", i), fmt.Sprint("note", i), keys[chance.IntN(v)]
				if err := t.create(ctx, note); err != nil {
					return Result{}, err
				}
				_, err := t.say(ctx, question{shape: shapes()[i%3], agent: name, prompt: strings.Join(keys, ", "),
					pieces: []string{"I use " + used}})
				if err != nil {
					return Result{}, err
				}
				moved := false
				for _, key := range keys { // after the answer, so that the published proxy sees it, too
					if chance.Float64() >= moving {
						continue
					}
					if err := t.move(ctx, key); err != nil {
						return Result{}, err
					}
					moved = moved || key == used
				}
				done, err := t.commit(ctx, note, name, "done", 0)
				switch {
				case err != nil:
					return Result{}, err
				case !done && moved:
					true2[k]++
				case !done:
					false2[k]++
				case moved:
					ok = false
				}
			}
		}
		share := func(k int) float64 { return float64(false2[k]) / float64(n) }
		ok = ok && share(0) <= most
		if last = share(1); len(ours) == 0 {
			first = share(1)
		}
		ours = append(ours, fmt.Sprintf("%d names %d", v, false2[0]))
		theirs = append(theirs, fmt.Sprintf("%d names %d", v, false2[1]))
	}
	return Result{Ours: fmt.Sprintf("needless refusals of %d commits: %s", n, strings.Join(ours, ", ")),
		Baseline: "the published proxy's rule, in memory: " + strings.Join(theirs, ", "),
		Verdict:  beats(ok && last > first, true),
		Note: fmt.Sprintf("each prompt has all names, each answer uses one, and each shard moves after %s %% of answers. A "+
			"name that only the prompt has is no read here", digits(100*moving))}, nil
}

func threeVendors(ctx context.Context, e *Env) (Result, error) {
	keys, n := keysOf("part", 4), e.of(24, 4_400)
	var words []string
	ok := true
	for _, form := range shapes() {
		for _, streamed := range []bool{false, true} {
			t, err := e.talk(ctx, wordPolicy("enforce", keys, nil), "")
			if err == nil {
				err = t.create(ctx, keys...)
			}
			if err != nil {
				return Result{}, err
			}
			got, err := usages(ctx, e, t, keys, form, streamed, n)
			if err != nil {
				return Result{}, err
			}
			ok = ok && got.exact()
			way := "whole"
			if streamed {
				way = "streamed"
			}
			words = append(words, fmt.Sprintf("%s %s %d of %d", form.name, way, got.stale, got.moved))
		}
	}
	return Result{Ours: "commits on what had moved: " + strings.Join(words, ", "), Verdict: holds(ok),
		Note: "the same steps in each shape, and the meter has the same figures for all"}, nil
}

func hiddenAges(ctx context.Context, e *Env) (Result, error) {
	const median, spread, most = 8 * time.Millisecond, .5, 15
	chance, n := e.chance("ages of hidden"), e.of(2, 40)
	keys := keysOf("part", 1)
	t, err := e.talk(ctx, wordPolicy("enforce", keys, nil), "")
	if err == nil {
		err = t.create(ctx, keys...)
	}
	if err != nil {
		return Result{}, err
	}
	younger, worst := 0, 0.0
	var short, long []float64
	for k := 1; k <= most; k++ {
		for i := range n {
			name := fmt.Sprint("agent-", k, "-", i)
			left, first := time.Time{}, time.Duration(0)
			for step := range k {
				think := time.Duration(float64(median) * math.Exp(spread*chance.NormFloat64()))
				began := time.Now()
				_, err := t.say(ctx, question{shape: shapes()[i%3], agent: name, prompt: "go on",
					pieces: []string{"as " + keys[0]}, thinks: func() error {
						if left.IsZero() {
							left = time.Now()
						}
						return pause.Sleep(ctx, think)
					}})
				if err != nil {
					return Result{}, err
				}
				if step == 0 {
					first = time.Since(began)
				}
			}
			least := time.Since(left)
			age, known, err := t.given(ctx, name, keys[0])
			if err != nil {
				return Result{}, err
			}
			if !known || age < least-time.Millisecond {
				younger++
			}
			worst = max(worst, milliseconds(age))
			switch k {
			case 1:
				short = append(short, milliseconds(age)/milliseconds(first))
			case most:
				long = append(long, milliseconds(age)/milliseconds(first))
			}
		}
	}
	slices.Sort(short)
	slices.Sort(long)
	return Result{
		Ours: fmt.Sprintf("%d of %d ages are less than the time since the first request left; the oldest was %s ms; in "+
			"first steps: after %d step %s, after %d steps %s", younger, most*n, digits(worst), 1,
			digits(report.Quantile(short, .5)), most, digits(report.Quantile(long, .5))),
		Verdict: holds(younger == 0),
		Note: fmt.Sprintf("steps are log-normal around %v, in place of seconds. What a model is told once stays as old as "+
			"the first request that led to it, so no later commit takes it for newer", median)}, nil
}

func inTheWay(ctx context.Context, e *Env) (Result, error) {
	const most = .3 // ms
	n := e.of(60, 1_000)
	client := &http.Client{}
	defer client.CloseIdleConnections()
	text := strings.Repeat("a sentence of some words about nothing much. ", 80)
	var words []string
	ok := true
	for _, v := range []int{4, 100, 1_000, 10_000} {
		keys := make([]string, v)
		for i := range keys {
			keys[i] = fmt.Sprint("p_", i)
		}
		t, err := e.talk(ctx, wordPolicy("observe", keys, nil), "")
		if err != nil {
			return Result{}, err
		}
		var took [2][]float64
		for i := range 2 * n { // in turns
			at := []string{t.url, t.model.url}[i%2]
			q := &question{shape: shapes()[0], agent: "agent", prompt: text, pieces: []string{"nothing"}}
			began := time.Now()
			if _, err := t.model.ask(ctx, client, at, q); err != nil {
				return Result{}, err
			}
			took[i%2] = append(took[i%2], milliseconds(time.Since(began)))
		}
		slices.Sort(took[0])
		slices.Sort(took[1])
		proxied, bare := report.Quantile(took[0], .5), report.Quantile(took[1], .5)
		ok = ok && proxied-bare <= most
		words = append(words, fmt.Sprintf("%d names %s ms (%s and %s)", v, digits(proxied-bare), digits(proxied),
			digits(bare)))
	}
	return Result{Ours: "added at the median: " + strings.Join(words, ", "), Verdict: holds(ok),
		Note: fmt.Sprintf("a prompt of %d characters, by way of the proxy and of the scripted model itself in turns",
			len(text))}, nil
}

func registeredFirst(ctx context.Context, e *Env) (Result, error) {
	n, key := e.of(12, 1_000), keysOf("part", 1)[0]
	t, err := e.talk(ctx, wordPolicy("enforce", []string{key}, nil), "")
	if err == nil {
		err = t.create(ctx, key)
	}
	if err != nil {
		return Result{}, err
	}
	first, same := 0, 0
	said := "by " + key + " then"
	for i := range 2 * n {
		name := fmt.Sprint("agent", i)
		q := question{shape: shapes()[i%3], agent: name, prompt: "go on", pieces: []string{said}}
		known := false
		look := func() (err error) {
			_, known, err = t.given(ctx, name, key)
			return err
		}
		if i%2 == 1 {
			cut := 1 + (i/2)%(len(said)-1) // names are cut at every byte
			q.pieces, q.within = []string{said[:cut], said[cut:]}, func() error {
				for began := time.Now(); !known && time.Since(began) < time.Second; { // it is on its way through the proxy
					if err := look(); err != nil {
						return err
					}
				}
				return nil
			}
		}
		got, err := t.firstByte(ctx, &q, func() error {
			if i%2 == 1 {
				return nil
			}
			return look()
		})
		if err != nil {
			return Result{}, err
		}
		if known {
			first++
		}
		bare, err := t.model.ask(ctx, t.http, t.model.url, &question{shape: q.shape, pieces: q.pieces})
		if err != nil {
			return Result{}, err
		}
		if got == bare {
			same++
		}
	}
	return Result{
		Ours:    fmt.Sprintf("registered before the last byte: %s; answers unchanged: %s", of(first, 2*n), of(same, 2*n)),
		Verdict: holds(first == 2*n && same == 2*n),
		Note:    "half are streams, whose last event waits until the read is there; names are cut at every byte"}, nil
}

// firstByte asks a question and looks when the first byte of the answer is here.
func (t *talking) firstByte(ctx context.Context, q *question, look func() error) (string, error) {
	client := &http.Client{Transport: looksAt{t.http.Transport, look}}
	return t.model.ask(ctx, client, t.url, q)
}

// looksAt looks at something when the first byte of an answer is there.
type looksAt struct {
	http.RoundTripper
	look func() error
}

func (l looksAt) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	if err := l.look(); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(string(first)), resp.Body), resp.Body}
	return resp, nil
}
