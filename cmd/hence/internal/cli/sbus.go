package cli

import (
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
	SBusTTL      time.Duration `name:"sbus-session-ttl" default:"1h" help:"How long what a name of S-Bus read counts."`
}

// into gives a sidecar's configuration what the flags say.
func (f *sbusFace) into(c sidecar.Config) sidecar.Config {
	most := f.SBusMaxDelta
	if most == 0 {
		most = -1
	}
	c.SBus = sidecar.SBus{Listen: f.SBus, Agent: f.SBusAgent, MaxDelta: most, Merge: f.SBusMerge}
	c.Limits.ReaderTTL = f.SBusTTL
	return c
}

// keep says where the clients are served, and keeps a free port for the next start.
func (f *sbusFace) keep(side *sidecar.Sidecar, say func(format string, args ...any)) {
	if url := side.BusURL(); url != "" {
		_, f.SBus, _ = strings.Cut(url, "://")
		say("S-Bus at %s", url)
	}
}
