package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/agentfile"
	"github.com/hence-dev/hence/cmd/hence/internal/process"
	"github.com/hence-dev/hence/sidecar"
)

// hooked is what a sidecar asks about each sealed footprint.
type hooked struct {
	HookURL     string        `name:"hook-url" placeholder:"URL" help:"URL of a hook that judges each sealed footprint."`
	HookCommand []string      `sep:"none" placeholder:"ARG" help:"Program of a hook; one flag per argument, no shell."`
	HookTimeout time.Duration `default:"5s" help:"Time limit for the hook; without an answer the seal aborts, retryable."`
}

func (h hooked) hook() sidecar.Hook {
	return sidecar.Hook{URL: h.HookURL, Command: h.HookCommand, Timeout: h.HookTimeout}
}

// usable says why the hook of the flags cannot be asked. It is called before anything is started.
func (h hooked) usable() error {
	hook := h.hook()
	if err := sidecar.CheckHook(hook); err != nil {
		return misused(err)
	}
	if err := findHook(hook); err != nil {
		return misused(fmt.Errorf("--hook-command: %w: %s", err, nameProgram))
	}
	return nil
}

// of is an agent's hook: that of the file, or else that of the flags.
func (h hooked) of(a agentfile.Agent) sidecar.Hook {
	if a.Hook == nil {
		return h.hook()
	}
	return sidecar.Hook{URL: a.Hook.URL, Command: a.Hook.Command, Dir: a.Hook.Dir, Timeout: a.Hook.Timeout}
}

// nameProgram is what to do when a hook's program cannot be run.
const nameProgram = "name a program that is in PATH, or its path"

// findHook says why a hook's program cannot be run; a URL is asked when there is something to ask.
func findHook(hook sidecar.Hook) error {
	if len(hook.Command) == 0 {
		return nil
	}
	if _, err := process.Find(hook.Command[0], hook.Dir, os.Environ()); err != nil {
		return err
	}
	return nil
}
