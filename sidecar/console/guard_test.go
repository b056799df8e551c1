package console

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHeaders: every answer, also a refusal and a file, tells the browser what the page may do.
func TestHeaders(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/", "/js/app.js", "/css/tokens.css", "/api/live", "/api/no-such", "/healthz"} {
		resp, _ := w.ask("GET", path, "", nil)
		h := resp.Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q has no %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers are %v", path, h)
		}
	}
}

// TestNoScriptsInMarkup: the policy would stop them; none is there to be stopped.
func TestNoScriptsInMarkup(t *testing.T) {
	w := newWorld(t)
	_, page := w.ask("GET", "/", "", nil)
	for _, bad := range []string{"<script>", "style=", "onclick", "http://", "https://"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// TestDoors lists who may see what.
func TestDoors(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Hosts = []string{"watch.example"} })
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	head := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, c := range []struct {
		what, method, path string
		edit               func(*http.Request)
		want               int
	}{
		{"with the token", "GET", "/api/live", nil, 200},
		{"without it", "GET", "/api/live", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"with another one", "GET", "/api/live", head("Authorization", "Bearer no"), 401},
		{"a stream without it", "GET", "/api/stream", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"the feed without it", "GET", "/v1/workspaces/default/decisions", head("Authorization", ""), 401},
		{"an export without it", "GET", "/api/tx/a.1.1/export", head("Authorization", ""), 401},
		{"a file without it", "GET", "/js/app.js", head("Authorization", ""), 200},
		{"a probe under any name", "GET", "/healthz", host("rebound.example"), 200},
		{"a name pointed here", "GET", "/api/live", host("rebound.example"), 421},
		{"a name pointed here, with a port", "GET", "/", host("rebound.example:7422"), 421},
		{"a name that is ours", "GET", "/api/live", host("watch.example:80"), 200},
		{"localhost", "GET", "/api/live", host("localhost:7422"), 200},
		{"an address", "GET", "/api/live", host("[::1]:7422"), 200},
		{"a page of another site reads", "GET", "/api/live", head("Sec-Fetch-Site", "cross-site"), 403},
		{"a page of another site acts", "POST", "/api/residue/a.1.1/0/retry", head("Sec-Fetch-Site", "cross-site"), 403},
		{"another origin acts", "POST", "/logout", head("Origin", "https://evil.example"), 403},
		{"no operator", "POST", "/api/residue/a.1.1/0/accept", nil, 409},
		{"a way that is not there", "DELETE", "/api/live", nil, 405},
	} {
		resp, body := w.ask(c.method, c.path, "{}", c.edit)
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d: %s", c.what, resp.StatusCode, c.want, body)
		}
	}
}

// TestLogin: a token gives a cookie that scripts and other sites do not get; logging out ends it.
func TestLogin(t *testing.T) {
	w := newWorld(t)
	with := func(c *http.Cookie) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Authorization")
			r.AddCookie(c)
		}
	}
	resp, body := w.ask("POST", "/login", `{"token":"`+token+`"}`, nil)
	if resp.StatusCode != http.StatusNoContent || len(resp.Cookies()) != 1 {
		t.Fatalf("login: %s %s", resp.Status, body)
	}
	cookie := resp.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" ||
		strings.Contains(cookie.Value, token) {
		t.Errorf("the cookie is %v", cookie)
	}
	if resp, _ := w.ask("GET", "/api/live", "", with(cookie)); resp.StatusCode != 200 {
		t.Errorf("with the cookie: %s", resp.Status)
	}
	w.ask("POST", "/logout", "{}", with(cookie))
	if resp, _ := w.ask("GET", "/api/live", "", with(cookie)); resp.StatusCode != 401 {
		t.Errorf("after the logout: %s", resp.Status)
	}
	code := strings.TrimPrefix(w.page.LoginFragment(), "#login=")
	for i, want := range []int{204, 401} {
		if resp, _ := w.ask("POST", "/login", `{"invitation":"`+code+`"}`, nil); resp.StatusCode != want {
			t.Errorf("use %d of an invitation: %d, want %d", i+1, resp.StatusCode, want)
		}
	}
	for _, bad := range []string{"", "{", `{"token":7}`, strings.Repeat("x", maxLoginBody+1)} {
		if resp, body := w.ask("POST", "/login", bad, nil); resp.StatusCode != 400 {
			t.Errorf("login with %.10q: %s %s", bad, resp.Status, body)
		}
	}
	seen := map[int]int{}
	for range maxTries + 1 {
		resp, _ := w.ask("POST", "/login", `{"token":"guess"}`, nil)
		seen[resp.StatusCode]++
	}
	if seen[429] == 0 || seen[401] == 0 || seen[401] > maxTries {
		t.Errorf("guesses were answered with %v", seen)
	}
}

// stopped is a clock that a test moves.
type stopped struct{ now time.Time }

func (s *stopped) Now() time.Time                       { return s.now }
func (s *stopped) After(time.Duration) <-chan time.Time { return nil }

// TestInvitationsEnd: one lasts its time, and there are only so many.
func TestInvitationsEnd(t *testing.T) {
	clock := &stopped{time.Unix(1000, 0)}
	d := newDoor(Config{Token: token, Clock: clock, Limits: Limits{Sessions: 2, SessionAge: time.Hour}})
	code := d.invite()
	clock.now = clock.now.Add(LoginLasts)
	if err := d.admit(from("127.0.0.1:1"), "", code); err == nil {
		t.Error("an invitation lasts for ever")
	}
	first := d.invite()
	for range 2 {
		clock.now = clock.now.Add(time.Second)
		d.invite()
	}
	if err := d.admit(from("127.0.0.1:1"), "", first); err == nil || len(d.invites) > 2 {
		t.Errorf("%d invitations are kept, the oldest too: %v", len(d.invites), err)
	}
}
