package cli

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar"
)

// The merge hook is a URL or a program with its arguments, and one that cannot be asked is refused before a start.
func TestMergeHookFlag(t *testing.T) {
	for words, want := range map[string]string{"": "", "http://127.0.0.1:9/m": "", "true -x http://h": "",
		"ftp://h": "give http://host/path", "no-such-program": "not found in PATH"} {
		f := sbusFace{SBusHook: strings.Fields(words)}
		err := f.mergeable()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", words, err, want)
		}
		if hook := f.into(sidecar.Config{}).SBus.MergeHook; hook.URL != words && strings.Join(hook.Command, " ") != words {
			t.Errorf("%q is taken as %+v", words, hook)
		}
	}
}
