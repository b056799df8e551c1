package cli

import (
	"time"

	"github.com/hence-dev/hence/sidecar"
)

// hooked is what a sidecar asks about each sealed footprint.
type hooked struct {
	HookURL     string        `name:"hook-url" placeholder:"URL" help:"Ask this URL about each sealed footprint."`
	HookCommand []string      `sep:"none" placeholder:"ARG" help:"Ask this program instead; once per argument, no shell."`
	HookTimeout time.Duration `default:"5s" help:"No answer within this time is a no."`
}

func (h hooked) hook() sidecar.Hook {
	return sidecar.Hook{URL: h.HookURL, Command: h.HookCommand, Timeout: h.HookTimeout}
}
