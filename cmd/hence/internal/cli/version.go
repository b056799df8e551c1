package cli

import (
	"fmt"
	"io"
	"runtime/debug"
)

// versionCmd is the configuration of "hence version".
type versionCmd struct {
	output
}

// build is what this binary was made from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"` // there were changes beyond the revision
	Go       string `json:"go"`
}

// Run prints what the Go toolchain recorded when it built the binary.
func (c *versionCmd) Run(s Streams) error {
	b := buildOf(debug.ReadBuildInfo())
	return c.print(s.Out, b, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, b)
		return err
	})
}

func buildOf(info *debug.BuildInfo, ok bool) build {
	if !ok {
		return build{Version: "unknown"}
	}
	b := build{Version: info.Main.Version, Go: info.GoVersion}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the version in one line.
func (b build) String() string {
	line := "hence " + b.Version
	if b.Revision != "" {
		line += " " + b.Revision
	}
	if b.Modified {
		line += " (modified)"
	}
	return line + " " + b.Go
}
