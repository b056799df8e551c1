package upstream

import (
	"net/url"
	"testing"
)

// The configured headers are for the endpoint's scheme and host alone, at any of its paths.
func TestTrusts(t *testing.T) {
	endpoint, err := url.Parse("https://h:8443/mcp")
	if err != nil {
		t.Fatal(err)
	}
	b := &bounded{endpoint: endpoint}
	for text, want := range map[string]bool{"https://h:8443/mcp": true, "https://H:8443/other?x=1": true,
		"http://h:8443/mcp": false, "https://h/mcp": false, "https://h:8444/mcp": false, "https://x.h:8443/mcp": false,
		"https://h:8443@x/mcp": false} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if b.trusts(u) != want {
			t.Errorf("%s: %v, want %v", text, !want, want)
		}
	}
}
