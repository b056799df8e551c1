package agentfile

import (
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/hence-dev/hence/gate/yamlfile"
)

// maxHookTime is the longest that a sidecar waits for a hook.
const maxHookTime = time.Minute

// Hook is what an agent's sidecar asks about each sealed footprint: a URL or a command, never both.
type Hook struct {
	URL     string
	Command []string      // the program and its arguments; no shell reads them
	Timeout time.Duration // 0: the default
	Dir     string        // where the command runs: the file's folder
	Line    int           // in the file, 1-based
	Column  int
}

func (r *reader) hook(v *value) *Hook {
	h := &Hook{Dir: r.dir, Line: v.Line, Column: v.Column}
	r.Fields(v, "the hook", []field{
		{Name: "url", Take: func(v *value) { h.URL = r.hookURL(v) }},
		{Name: "command", Take: func(v *value) { h.Command = r.hookCommand(v) }},
		{Name: "timeout", Take: func(v *value) { h.Timeout = r.hookTime(v) }},
	})
	asked, run := v.Get("url") != nil, v.Get("command") != nil
	switch {
	case asked && run:
		r.Refuse(v.Place, "the hook has a url and a command", "keep one of them")
	case v.Kind == yamlfile.Map && !asked && !run:
		r.Refuse(v.Place, "the hook has no url and no command",
			"write url: http://host/path, or command: [program, argument, ...]")
	}
	return h
}

// hookURL does not repeat what it refuses: there may be a password in it.
func (r *reader) hookURL(v *value) string {
	text := r.Text(v, "url")
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		r.Refuse(v.Place, "the hook's url is not one", "write http://host/path or https://host/path")
	}
	return text
}

func (r *reader) hookCommand(v *value) (words []string) {
	for _, item := range r.List(v, "the hook's command") {
		words = append(words, r.Scalar(item, "a word of the hook's command"))
	}
	if v.Kind == yamlfile.List && (len(words) == 0 || words[0] == "") {
		r.Refuse(v.Place, "the hook's command names no program", "write [program, argument, ...]")
	}
	return words
}

func (r *reader) hookTime(v *value) time.Duration {
	d, err := time.ParseDuration(v.Text)
	form := regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m))+$`)
	if v.Kind != yamlfile.Text || !form.MatchString(v.Text) || err != nil || d <= 0 || d > maxHookTime {
		r.Refuse(v.Place, fmt.Sprintf("the hook's timeout is %.40q", v.Text), "write a time up to 1m, such as 5s or 500ms")
	}
	return d
}
