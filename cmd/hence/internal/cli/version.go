package cli

import (
	_ "embed"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// stamp is empty here. Where a binary is built without its repository, as in an image, the build writes version,
// revision and time into the file.
//
//go:embed build.txt
var stamp string

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
	b := buildOf(debug.ReadBuildInfo()).stamped(stamp)
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

// stamped is the build with what its builder wrote down; words that say "unknown" say nothing.
func (b build) stamped(text string) build {
	words := strings.Fields(text)
	for i, field := range []*string{&b.Version, &b.Revision, &b.Time} {
		if i < len(words) && words[i] != "unknown" {
			*field = words[i]
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
