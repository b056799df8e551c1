package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// from is a request of an address.
func from(address string) *http.Request {
	r := httptest.NewRequest("POST", "/login", nil)
	r.RemoteAddr = address
	return r
}

// TestWrongTokens: an address that shows too many wrong tokens is turned away for a minute, whatever it shows, and no
// other address is. What is remembered of addresses is bounded.
func TestWrongTokens(t *testing.T) {
	clock := &stopped{time.Unix(1000, 0)}
	d := newDoor(Config{Token: token, Clock: clock, Limits: Limits{Sessions: 2, SessionAge: time.Hour}})
	turned := func(r *http.Request, token string) bool {
		var many *tooManyTries
		return errors.As(d.admit(r, token, ""), &many)
	}
	for i := range maxTries {
		clock.now = clock.now.Add(time.Second)
		if turned(from(fmt.Sprint("192.0.2.1:", i+1)), "guess") {
			t.Fatalf("turned away after %d", i)
		}
	}
	for _, c := range []struct {
		address, token string
		want           bool
	}{{"192.0.2.1:9", token, true}, {"[::ffff:192.0.2.1]:9", token, true}, {"192.0.2.2:9", token, false}} {
		if got := turned(from(c.address), c.token); got != c.want {
			t.Errorf("%s with %s is turned away: %v", c.address, c.token, got)
		}
	}
	clock.now = clock.now.Add(triesWindow - (maxTries-1)*time.Second)
	if turned(from("192.0.2.1:9"), token) {
		t.Error("it is turned away for longer than the window")
	}
	for i := range maxTries + 1 {
		if got := turned(from(fmt.Sprintf("[2001:db8::%x]:1", i+1)), "guess"); got != (i == maxTries) {
			t.Errorf("address %d of one network is turned away: %v", i+1, got)
		}
	}
	for i := range 2 * maxAddresses {
		turned(from(fmt.Sprintf("198.51.%d.%d:1", i>>8, i&255)), "guess")
	}
	if n := len(d.wrong.by); n > maxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
	if d.admit(from("203.0.113.7:1"), token, "") != nil {
		t.Error("no token is accepted any more")
	}
}

// TestWrongTokensAnswer: by both ways of showing a token, the answer says how long to wait.
func TestWrongTokensAnswer(t *testing.T) {
	guess := map[string]func(*world) *http.Response{
		"login": func(w *world) *http.Response {
			resp, _ := w.ask("POST", "/login", `{"token":"guess"}`, nil)
			return resp
		},
		"bearer": func(w *world) *http.Response {
			resp, _ := w.ask("GET", "/api/live", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") })
			return resp
		},
	}
	for name, guess := range guess {
		w := newWorld(t)
		for range maxTries {
			if resp := guess(w); resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s", name, resp.Status)
			}
		}
		resp := guess(w)
		wait, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if resp.StatusCode != http.StatusTooManyRequests || err != nil || wait < 1 || wait > 60 {
			t.Errorf("%s: %s, Retry-After %q", name, resp.Status, resp.Header.Get("Retry-After"))
		}
	}
}

// movable is a clock that a test moves, with timers that end when it does.
type movable struct {
	mu     sync.Mutex
	now    time.Time
	timers []timer
}

type timer struct {
	at   time.Time
	ends chan time.Time
}

func (m *movable) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *movable) After(d time.Duration) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := timer{m.now.Add(d), make(chan time.Time, 1)}
	m.timers = append(m.timers, t)
	return t.ends
}

func (m *movable) move(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	kept := m.timers[:0]
	for _, t := range m.timers {
		if t.at.After(m.now) {
			kept = append(kept, t)
		} else {
			t.ends <- m.now
		}
	}
	m.timers = kept
}

// TestStreamsEndWithTheSession: what was opened with a cookie ends when that is logged out, pushed out by other
// logins, or too old; what was opened with another one goes on.
func TestStreamsEndWithTheSession(t *testing.T) {
	const age = time.Hour
	for _, path := range []string{"/api/stream", "/v1/workspaces/default/decisions"} {
		for name, end := range map[string]func(*world, *movable, *http.Cookie){
			"logout": func(w *world, _ *movable, c *http.Cookie) {
				w.ask("POST", "/logout", "{}", func(r *http.Request) { r.AddCookie(c) })
			},
			"other logins": func(w *world, clock *movable, _ *http.Cookie) {
				for range 3 {
					w.login()
				}
			},
			"age": func(_ *world, clock *movable, _ *http.Cookie) { clock.move(age) },
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				clock := &movable{now: time.Unix(1000, 0)}
				w := newWorld(t, func(c *Config) {
					c.Clock = clock
					c.Limits.Sessions, c.Limits.SessionAge = 3, age
				})
				cookie := w.login()
				clock.move(time.Second)
				ended := w.open(path, cookie)
				stays := w.open(path, nil)
				end(w, clock, cookie)
				select {
				case <-ended:
				case <-time.After(20 * time.Second):
					t.Error("the stream goes on")
				}
				select {
				case <-stays:
					t.Error("the stream with the token has ended, too")
				default:
				}
			})
		}
	}
}

// login is the cookie of one more browser.
func (w *world) login() *http.Cookie {
	w.t.Helper()
	resp, body := w.ask("POST", "/login", `{"token":"`+token+`"}`, nil)
	if resp.StatusCode != http.StatusNoContent {
		w.t.Fatalf("login: %s %s", resp.Status, body)
	}
	return resp.Cookies()[0]
}

// open reads a stream, with a cookie or the token, until it ends.
func (w *world) open(path string, cookie *http.Cookie) (ended chan struct{}) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", w.server.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if r.Header.Set("Authorization", "Bearer "+token); cookie != nil {
		r.Header.Del("Authorization")
		r.AddCookie(cookie)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		w.t.Fatalf("%s: %v, %v", path, resp, err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			continue
		}
	}()
	w.t.Cleanup(func() { cancel(); <-ended })
	return ended
}
