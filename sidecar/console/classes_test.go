package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sidecar/api"
)

// Classes of shards are shown as they are where clients of S-Bus are served, and are a 404 elsewhere.
func TestClassesAreShown(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Classes = func() api.ShardClasses {
			return api.ShardClasses{Dedicated: 2, Commutative: 1, Most: []api.ShardClass{{Key: "a/b",
				Class: "contended_commutative", Attempts: 9, Met: 4, Hinted: 9, Honest: 9}}}
		}
	})
	resp, body := w.ask("GET", "/api/classes", "", nil)
	want := `{"dedicated":2,"contended_commutative":1,"contended_noncommutative":0,"most_contended":[{"key":"a/b",` +
		`"class":"contended_commutative","attempts":9,"met":4,"hinted":9,"honest":9}]}`
	if resp.StatusCode != http.StatusOK || body != want {
		t.Errorf("GET /api/classes: %s %s, want %s", resp.Status, body, want)
	}
	if about := get[jsonMap](w, "/api/about"); about["classes"] != true {
		t.Errorf("the page is not told that there are classes: %v", about)
	}
	nobody := func(r *http.Request) { r.Header.Del("Authorization") }
	if resp, _ := w.ask("GET", "/api/classes", "", nobody); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", resp.Status)
	}
	w = newWorld(t)
	resp, body = w.ask("GET", "/api/classes", "", nil)
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "--sbus") {
		t.Errorf("without clients of S-Bus: %s %s", resp.Status, body)
	}
	if about := get[jsonMap](w, "/api/about"); about["classes"] != false {
		t.Errorf("the page is told of classes that are not there: %v", about)
	}
}
