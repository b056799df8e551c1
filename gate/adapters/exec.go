package adapters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/child"
	"github.com/hence-dev/hence/gate/policy/template"
)

// pipeWait is how long a program that ended may leave its output open in a child.
const pipeWait = time.Second

type execAdapter struct {
	spec  gate.ExecSpec
	env   gate.Env
	argv  []template.Template
	look  []template.Template
	vars  map[string]template.Template
	stdin *template.Tree
	keep  [][]string
}

func newExec(d gate.Decl) (gate.Adapter, error) {
	spec, err := readSpec[gate.ExecSpec](d)
	if err != nil {
		return nil, err
	}
	p := &parser{}
	a := &execAdapter{spec: spec, env: d.Env, argv: p.list("argv", spec.Argv), vars: map[string]template.Template{},
		keep: d.Keep}
	a.stdin = p.tree("stdin", spec.Stdin)
	for name, text := range spec.Env {
		if strings.ContainsAny(name, "=\x00") || name == "" || strings.HasPrefix(name, "HENCE_") {
			return nil, fmt.Errorf("env %q: choose a name without '=' that does not start with HENCE_", name)
		}
		a.vars[name] = p.text("env "+name, text)
	}
	if spec.LookUp != nil {
		a.look = p.list("lookup.argv", spec.LookUp.Argv)
	}
	for _, argv := range [][]template.Template{a.argv, a.look} {
		if spec.LookUp == nil && argv == nil {
			continue
		}
		if len(argv) == 0 || argv[0].String() == "" || len(argv[0].Placeholders()) > 0 {
			return nil, errors.New("argv: its first entry is the program, written out without values")
		}
	}
	return a, p.err
}

// Check fills the command in, and that of the look-up, without running them.
func (a *execAdapter) Check(c gate.Call) error {
	_, err := a.command(context.Background(), a.argv, c, anySecret())
	if err == nil && a.spec.LookUp != nil {
		_, err = a.command(context.Background(), a.look, c, anySecret())
	}
	return unsent("preparing the program", err)
}

// Call runs the program and waits for its end. Only the declared exit codes prove that nothing happened: how far a
// program came before any other only it knows.
func (a *execAdapter) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	s := newSecrets(a.env, a.keep...)
	code, out, said, err := a.run(ctx, a.argv, c, s)
	switch {
	case err != nil:
		return gate.Answer{}, err
	case slices.Contains(a.spec.Refused, code):
		return s.answer(gate.Answer{Refused: true, Detail: s.detail(fmt.Sprintf("exit code %d: %s", code, said))}), nil
	case code != 0:
		// How far it came before it failed only the program knows.
		return gate.Answer{}, unknown("%s", s.detail(fmt.Sprintf("exit code %d: %s", code, said)))
	}
	return s.answer(gate.Answer{Detail: s.detail(said), Result: result(out)}), nil
}

// LookUp runs the declared program.
func (a *execAdapter) LookUp(ctx context.Context, c gate.Call) (gate.Answer, error) {
	if a.spec.LookUp == nil {
		return gate.Answer{}, gate.ErrNoLookup
	}
	absent := a.spec.LookUp.Absent
	if len(absent) == 0 {
		absent = []int{1}
	}
	s := newSecrets(a.env, a.keep...)
	code, out, said, err := a.run(ctx, a.look, c, s)
	switch {
	case err != nil:
		return gate.Answer{}, fmt.Errorf("looking the call up: %w", err)
	case code == 0:
		return s.answer(gate.Answer{Detail: "found by look-up", Result: result(out)}), nil
	case slices.Contains(absent, code):
		return gate.Answer{Absent: true, Detail: fmt.Sprintf("the look-up ended with %d", code)}, nil
	}
	return gate.Answer{}, unknown("the look-up: exit code %d: %s", code, s.detail(said))
}

// run returns the exit code and the two outputs. An error is ErrNotSent when the program never started, and ErrUnknown
// when it was killed.
func (a *execAdapter) run(ctx context.Context, argv []template.Template, c gate.Call,
	s *secrets) (int, []byte, string, error) {
	cmd, err := a.command(ctx, argv, c, s)
	if err != nil {
		return 0, nil, "", unsent("preparing the program", hideIn(s, err))
	}
	stdout, stderr := &bounded{most: MaxAnswer}, &bounded{most: 4 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if ctx.Err() != nil {
		return 0, nil, "", notSent("the time was over before the program started")
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, "", notSent("starting %s: %s", cmd.Args[0], s.clean(err.Error()))
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, nil, "", unknown("%s was killed at its time-out", cmd.Args[0])
	case stdout.over:
		return 0, nil, "", unknown("%s wrote more than %d bytes", cmd.Args[0], MaxAnswer)
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return 0, stdout.data, string(stderr.data), nil
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), stdout.data, string(stderr.data) + " " + string(stdout.data), nil
	}
	return 0, nil, "", unknown("%s: %s", cmd.Args[0], s.clean(err.Error()))
}

// command fills a command in. It runs in a process group of its own, which is killed as a whole.
func (a *execAdapter) command(ctx context.Context, argv []template.Template, c gate.Call,
	s *secrets) (*exec.Cmd, error) {
	v, err := values(c)
	if err != nil {
		return nil, err
	}
	args := make([]string, len(argv))
	escape := a.noOption
	for i, t := range argv {
		if args[i], err = t.Expand(v, escape); err != nil {
			return nil, fmt.Errorf("argv: %w", err)
		}
		switch {
		case t.String() == "--":
			escape = nil // no options come behind it
		case len(t.Placeholders()) == 0:
			escape = a.noOption // it may name a program that the first one runs, and that takes options of its own
		}
		if strings.Contains(args[i], "\x00") {
			return nil, errors.New("argv: a value holds a zero byte")
		}
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = a.spec.Dir
	child.KillWithContext(cmd, pipeWait)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"HENCE_KEY=" + c.Key, "HENCE_COMPENSATES=" + c.Compensates, "HENCE_TX=" + string(c.Tx),
		fmt.Sprintf("HENCE_INDEX=%d", c.Index), "TRACEPARENT=" + c.Traceparent,
	}
	if c.ForbidOnly {
		cmd.Env = append(cmd.Env, "HENCE_FORBID_ONLY=true")
	}
	v.Secret = s.get
	for name, t := range a.vars {
		value, err := t.Expand(v, nil)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", name, err)
		}
		if strings.Contains(value, "\x00") {
			return nil, fmt.Errorf("env %s: its value holds a zero byte", name)
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	stdin := "{}"
	if len(c.Args) > 0 {
		stdin = string(c.Args)
	}
	if a.stdin != nil {
		data, err := a.stdin.JSON(v)
		if err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
		stdin = string(data)
	}
	cmd.Stdin = strings.NewReader(stdin)
	return cmd, nil
}

// noOption refuses a value that begins an argument, and with it an option of the program, unless it is declared to.
func (a *execAdapter) noOption(p template.Placeholder, before, value string) (string, error) {
	if before == "" && strings.HasPrefix(value, "-") && !slices.Contains(a.spec.Options, p.Path[0]) {
		return "", errors.New("it begins with '-', and the program could take it for an option: write \"--\" before it in " +
			"argv, or name it under \"options\"")
	}
	return value, nil
}

// bounded keeps the first bytes that are written to it and lets the others go.
type bounded struct {
	data []byte
	most int
	over bool
}

// Write takes everything, so that the program is not stopped by its own words.
func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - len(b.data)
	if len(p) > room {
		b.over = true
	}
	b.data = append(b.data, p[:min(len(p), room)]...)
	return len(p), nil
}
