package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/hence-dev/hence/sidecar"
)

// sbusFace is how clients of S-Bus are served.
type sbusFace struct {
	SBus         string        `name:"sbus" placeholder:"ADDR" help:"Serve clients of S-Bus at HOST:PORT, too."`
	SBusAgent    string        `name:"sbus-agent" placeholder:"NAME" help:"Agent whose conversations their names are."`
	SBusMaxDelta int           `name:"sbus-max-delta" default:"2000" help:"Bytes of a commit of S-Bus; 0: no bound."`
	SBusMerge    bool          `name:"sbus-merge" help:"Merge commits of S-Bus that say that they only add."`
	SBusHook     []string      `name:"sbus-merge-hook" sep:"none" placeholder:"ARG" help:"URL or program to merge by."`
	SBusTTL      time.Duration `name:"sbus-session-ttl" default:"1h" help:"How long what a name of S-Bus read counts."`
}

// into gives a sidecar's configuration what the flags say.
func (f *sbusFace) into(c sidecar.Config) sidecar.Config {
	most := f.SBusMaxDelta
	if most == 0 {
		most = -1
	}
	c.SBus = sidecar.SBus{Listen: f.SBus, Agent: f.SBusAgent, MaxDelta: most, Merge: f.SBusMerge,
		MergeHook: f.mergeHook()}
	c.Limits.ReaderTTL = f.SBusTTL
	return c
}

// mergeHook is who merges what does not merge by regions: a URL, or a program with its arguments.
func (f *sbusFace) mergeHook() sidecar.Hook { return hookOf(f.SBusHook) }

// hookOf is whom a flag names: a URL, or a program with its arguments.
func hookOf(args []string) sidecar.Hook {
	if len(args) == 1 && strings.Contains(args[0], "://") {
		return sidecar.Hook{URL: args[0]}
	}
	return sidecar.Hook{Command: args}
}

// mergeable says why the merge hook cannot be asked. It is called before anything is started.
func (f *sbusFace) mergeable() error {
	hook := f.mergeHook()
	err := sidecar.CheckHook(hook)
	if err == nil {
		err = findHook(hook)
	}
	if err != nil {
		return misused(fmt.Errorf("--sbus-merge-hook: %w", err))
	}
	return nil
}

// keep says where the clients are served, and keeps a free port for the next start.
func (f *sbusFace) keep(side *sidecar.Sidecar, say func(format string, args ...any)) {
	if url := side.BusURL(); url != "" {
		_, f.SBus, _ = strings.Cut(url, "://")
		say("S-Bus at %s", url)
	}
}
