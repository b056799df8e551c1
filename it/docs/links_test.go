package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

// TestDocsLinks holds that every link inside README.md, DESIGN.md and docs/ leads to a file, and to a heading of it.
func TestDocsLinks(t *testing.T) {
	root := harness.Root(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	seen := 0
	for _, path := range append(documents(t, root), filepath.Join(root, "DESIGN.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(withoutCode(string(text)), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			name, heading, _ := strings.Cut(m[1], "#")
			target := path
			if name != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
			}
			if why := leadsTo(target, heading); why != "" {
				t.Errorf("%s: the link %s %s", path, m[1], why)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d links are found", seen)
	}
}

// leadsTo says why a link leads nowhere; empty: it does not.
func leadsTo(target, heading string) string {
	info, err := os.Stat(target)
	if err != nil {
		return "leads to nothing"
	}
	if heading == "" {
		return ""
	}
	if info.IsDir() {
		return "names a heading of a folder"
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(withoutCode(string(text))) {
		if strings.HasPrefix(line, "#") && slug(strings.TrimLeft(line, "#")) == heading {
			return ""
		}
	}
	return "names a heading that is not there"
}

// slug is how a heading is named in links.
func slug(heading string) string {
	drop := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	return strings.ReplaceAll(strings.ToLower(drop.ReplaceAllString(strings.TrimSpace(heading), "")), " ", "-")
}

// withoutCode drops fenced blocks, whose brackets and hashes mean other things.
func withoutCode(text string) string {
	var out strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inside = !inside
		} else if !inside {
			out.WriteString(line)
		}
	}
	return out.String()
}
