package gates

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// retold is one round: a story over real sidecars, of which a part is retracted.
type retold struct {
	sidecars []*harness.Sidecar
	errands  *harness.Errands
	shop     *harness.Shop
	rng      *rand.Rand
	prefix   string // of every name in it
	mode     string
	story    story
	cone     map[string]bool // once it was retracted
	holders  []*holder
}

func newRetold(sidecars []*harness.Sidecar, e *harness.Errands, shop *harness.Shop, n int) *retold {
	return &retold{sidecars: sidecars, errands: e, shop: shop, rng: rand.New(rand.NewPCG(uint64(n), 23)),
		prefix: fmt.Sprintf("r%d", n), mode: harness.Orders()[n%3]}
}

func (r *retold) any() *harness.Sidecar { return r.sidecars[r.rng.IntN(len(r.sidecars))] }

func (r *retold) shard(name string) string { return "shard:/" + r.prefix + "/" + name }
func (r *retold) path(name string) string  { return r.prefix + "/" + name }
func (r *retold) file(name string) string  { return "file:/" + r.path(name) }

// attempt is one open transaction of a story.
type attempt struct {
	*life
	*retold
	on *client.Tx
}

// readShard reads what another one wrote, or an unwritten one.
func (a *attempt) readShard(ctx context.Context, of string) error {
	got, err := a.on.Read(ctx, a.shard(of))
	if err == nil && got.Exists {
		a.saw = append(a.saw, string(got.Content))
	}
	return err
}

func (a *attempt) readFile(ctx context.Context, of string) error {
	content, err := inFiles{a.errands}.read(ctx, a.on, a.path(of))
	if err == nil && content != "" {
		a.saw = append(a.saw, content)
	}
	return err
}

func (a *attempt) writeShard(ctx context.Context, of string) error {
	a.wrote = append(a.wrote, a.shard(of))
	return a.on.Write(ctx, a.shard(of), []byte(a.name), client.WriteOptions{})
}

func (a *attempt) writeFile(ctx context.Context, of string) error {
	a.wrote = append(a.wrote, a.file(of))
	return inFiles{a.errands}.write(ctx, a.on, a.path(of), a.name)
}

// leave issues calls of which some take effect at once and can be taken back, and some leave with the commit for good.
func (a *attempt) leave(ctx context.Context) error {
	about := harness.Task{Task: a.name, Customer: a.name}
	for _, tool := range []string{"row.add", "mail.send", "card.charge", "note.post"} {
		if a.rng.IntN(3) > 0 {
			continue
		}
		args := any(about)
		if tool == "row.add" || tool == "note.post" {
			args = harness.Task{Task: a.name}
		}
		got, err := a.errands.Call(ctx, a.on, tool, args)
		switch {
		case err != nil:
			return err
		case tool == "row.add":
			a.row = true
		default:
			a.left = append(a.left, int(*got.Index))
		}
	}
	return nil
}

// lives runs one transaction to its end on a sidecar that knows of all before it.
func (r *retold) lives(ctx context.Context, s *harness.Sidecar, name string, do func(*attempt) error) error {
	if n := len(r.story); n > 0 {
		if _, err := s.Client.Chain(ctx, r.story[n-1].seq, 1); err != nil {
			return err
		}
	}
	tx, err := s.Client.Begin(ctx, client.BeginOptions{Mode: r.mode})
	if err != nil {
		return err
	}
	a := &attempt{life: &life{name: r.prefix + "-" + name, tx: tx.ID()}, retold: r, on: tx}
	if err := do(a); err != nil {
		return fmt.Errorf("%s (%s): %w", a.name, tx.ID(), err)
	}
	if err := r.errands.Sealed(ctx, tx, ""); err != nil {
		return err
	}
	d, err := tx.Status(ctx, 0)
	a.seq = d.Seq
	r.story = append(r.story, a.life)
	return err
}

// tell lets transactions follow from the root in a shape, with bystanders around them.
func (r *retold) tell(ctx context.Context, shape string, n int) error {
	err := r.lives(ctx, r.any(), "before", func(a *attempt) error {
		for i := 0; i < n; i += 2 { // others write where nothing was
			name := fmt.Sprint(i)
			if err := errors.Join(a.writeShard(ctx, name), a.writeFile(ctx, name)); err != nil {
				return err
			}
		}
		return a.leave(ctx)
	})
	for i := 0; i < n && err == nil; i++ {
		from := 0
		switch shape {
		case "chain":
			from = i - 1
		case "mixed":
			from = r.rng.IntN(max(1, i))
		}
		err = r.lives(ctx, r.any(), fmt.Sprint(i), func(a *attempt) error { return a.follow(ctx, i, from) })
		if err == nil && i == n/2 {
			err = r.lives(ctx, r.any(), "beside", func(a *attempt) error {
				return errors.Join(a.readShard(ctx, "none"), a.writeShard(ctx, "beside"), a.writeFile(ctx, "beside"), a.leave(ctx))
			})
		}
	}
	return err
}

// follow is the ith transaction, which reads from or overwrites an earlier one.
func (a *attempt) follow(ctx context.Context, i, from int) error {
	var err error
	if i > 0 {
		link := []func(context.Context, string) error{a.readShard, a.readFile, a.writeShard, a.writeFile}[a.rng.IntN(4)]
		err = link(ctx, fmt.Sprint(from))
	}
	for _, write := range []func(context.Context, string) error{a.writeShard, a.writeFile} {
		if err == nil {
			err = write(ctx, fmt.Sprint(i))
		}
	}
	if err == nil {
		err = a.leave(ctx)
	}
	return err
}

// root is the name of the one that is retracted.
func (r *retold) root() string { return r.prefix + "-0" }

// holder is a transaction that is open while what it works on is retracted.
type holder struct {
	on    *client.Tx
	ended chan error // of what it does meanwhile
}

// hold opens transactions over a part of the cone: one that was shown what it wrote, one that overwrote it for now,
// and one that waits for that.
func (r *retold) hold(ctx context.Context, n int) error {
	first := r.rng.IntN(len(r.sidecars))
	name := fmt.Sprint(r.rng.IntN(n))
	for i, do := range []func(*attempt) error{
		func(a *attempt) error { return errors.Join(a.readShard(ctx, name), a.writeShard(ctx, "holder")) },
		func(a *attempt) error { return a.writeFile(ctx, name) },
		func(a *attempt) error { return a.writeFile(ctx, name) },
	} {
		s := r.sidecars[(first+i)%len(r.sidecars)]
		if _, err := s.Client.Chain(ctx, r.story[len(r.story)-1].seq, 1); err != nil {
			return err
		}
		tx, err := s.Client.Begin(ctx, client.BeginOptions{Mode: r.mode})
		if err != nil {
			return err
		}
		h := &holder{on: tx, ended: make(chan error, 1)}
		r.holders = append(r.holders, h)
		a := &attempt{life: &life{name: r.prefix + "-holder"}, retold: r, on: tx}
		if i == 2 {
			go func() { h.ended <- do(a) }()
			return waits(ctx, tx)
		}
		if err := do(a); err != nil {
			return fmt.Errorf("holder %d: %w", i, err)
		}
		h.ended <- nil
	}
	return nil
}

// waits returns once a transaction waits for another one.
func waits(ctx context.Context, tx *client.Tx) error {
	ctx, cancel := context.WithTimeout(ctx, harness.FinalIn)
	defer cancel()
	for {
		d, err := tx.Status(ctx, 0)
		if err != nil || len(d.BlockedBy) > 0 {
			return err
		}
		if err := pause.Sleep(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("%s is %s and does not wait: %w", tx.ID(), d.State, err)
		}
	}
}

// released waits until the holders are over: none of them is committed.
func (r *retold) released(ctx context.Context) error {
	for i, h := range r.holders {
		why := <-h.ended
		if i < 2 && why == nil {
			_, why = h.on.Seal(ctx)
		}
		if why != nil && harness.ProblemCode(why) == "" && !errors.Is(why, errOvertaken) {
			return fmt.Errorf("holder %d: %w", i, why)
		}
		d, err := h.on.Status(ctx, 0)
		if err == nil && d.State == api.StateOpen {
			err = h.on.Abort(ctx, "a call was refused")
		}
		if err == nil {
			d, err = r.errands.Over(ctx, h.on)
		}
		if err != nil {
			return fmt.Errorf("holder %d: %w", i, err)
		}
		if d.State != api.StateAborted || i > 0 && d.Code != string(sequencer.CodeCascade) {
			return fmt.Errorf("holder %d (%s) is %s %q: want aborted with %s", i, d.Tx, d.State, d.Code, sequencer.CodeCascade)
		}
	}
	return nil
}

// undone asks for a retraction again and again until it is through: each time it is the same one.
func undone(ctx context.Context, s *harness.Sidecar, tx string) (client.Retraction, error) {
	ctx, cancel := context.WithTimeout(ctx, harness.FinalIn)
	defer cancel()
	for {
		got, err := s.Client.Retract(ctx, tx, "", false)
		if err != nil || got.State == api.RetractDone {
			return got, err
		}
		if err := pause.Sleep(ctx, 5*time.Millisecond); err != nil {
			return got, fmt.Errorf("the retraction of %s is %s: %+v: %w", tx, got.State, got.BlockedBy, err)
		}
	}
}

// retracted retracts roots at once, waits for all, and holds what the dry runs said and what shards and files hold
// against the story.
func (r *retold) retracted(ctx context.Context, roots ...string) error {
	r.cone = r.story.cone(roots...)
	asks := r.any()
	last := r.story[len(r.story)-1].seq
	if _, err := asks.Client.Chain(ctx, last, 1); err != nil {
		return err
	}
	for _, root := range roots {
		dry, err := asks.Client.Retract(ctx, r.story.named(root), "", true)
		if err == nil {
			err = r.foretold(root, &dry)
		}
		if err != nil {
			return fmt.Errorf("the dry run for %s: %w", root, err)
		}
	}
	errs := make(chan error, len(roots))
	for _, root := range roots {
		s := r.any()
		go func() { errs <- r.retractOne(ctx, s, root) }()
	}
	var failed error
	for range roots {
		failed = errors.Join(failed, <-errs)
	}
	if failed == nil {
		failed = r.released(ctx)
	}
	if failed != nil {
		return failed
	}
	return r.standing(ctx, asks, roots)
}

func (r *retold) retractOne(ctx context.Context, s *harness.Sidecar, root string) error {
	tx := r.story.named(root)
	if _, err := s.Client.Chain(ctx, r.story[len(r.story)-1].seq, 1); err != nil {
		return err
	}
	_, err := undone(ctx, s, tx)
	return err
}

// foretold holds a dry run against the story.
func (r *retold) foretold(root string, dry *client.Retraction) error {
	cone := r.story.cone(root)
	var got, left []string
	holds := r.story.without(cone)
	for _, m := range dry.Cone {
		got = append(got, m.Tx)
		for _, e := range m.Effects {
			if e.Fate == api.FateLeft {
				left = append(left, fmt.Sprintf("%s/%d leaked", m.Tx, e.Index))
			}
		}
		for _, s := range m.Restored {
			if want := holds[s.Scope]; s.Unknown || s.Absent != (want == "") || s.Writer != r.story.named(want) {
				return fmt.Errorf("%s would be restored to %+v: want what %q wrote", s.Scope, s, want)
			}
		}
	}
	slices.Sort(left)
	if want := r.story.leaks(cone); !slices.Equal(left, want) {
		return fmt.Errorf("it says that %v have left: want %v", left, want)
	}
	if want := r.story.txs(cone); dry.State != api.RetractPossible || !slices.Equal(got, want) {
		return fmt.Errorf("it is %s, the cone is %v: want %v", dry.State, got, want)
	}
	return nil
}

// standing holds shards and files against the story without its cone.
func (r *retold) standing(ctx context.Context, s *harness.Sidecar, roots []string) error {
	for _, root := range roots {
		if _, err := undone(ctx, s, r.story.named(root)); err != nil { // this sidecar's view shows it then
			return err
		}
	}
	tx, err := s.Client.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	var wrong []string
	for scope, want := range r.story.without(r.cone) {
		path, isFile := strings.CutPrefix(scope, "file:/")
		got, err := "", error(nil)
		if isFile {
			got, err = readIfThere(filepath.Join(r.shop.Root, path))
		} else {
			got, err = inShards{}.read(ctx, tx, strings.TrimPrefix(scope, "shard:/"))
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", scope, err)
		}
		if got = strings.TrimPrefix(got, nothing); got != want {
			wrong = append(wrong, fmt.Sprintf("%s holds %q: want %q", scope, got, want))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("after the retraction of %v: %s", roots, strings.Join(wrong, "; "))
	}
	return tx.Abort(ctx, "")
}

func readIfThere(path string) (string, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(content), err
}
