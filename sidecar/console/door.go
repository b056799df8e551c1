package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/feed"
)

const (
	maxLoginBody  = 4 << 10
	maxTries      = 20 // wrong tokens in a minute, of everybody together
	cookiePrefix  = "hence_console_"
	wrongTokenSay = "that is not the console's token: it is in the console's --token-file, or was printed when it started"
)

// LoginLasts is how long a printed link logs somebody in, once.
const LoginLasts = 10 * time.Minute

// door lets people in: a token, or once an invitation, is changed for a cookie that scripts cannot read.
type door struct {
	config Config
	token  [sha256.Size]byte

	mu       sync.Mutex
	sessions map[[sha256.Size]byte]time.Time // by the hash of the cookie: when it ends
	invites  map[[sha256.Size]byte]time.Time
	tries    int
	window   time.Time // when the counting of tries began
}

func newDoor(c Config) *door {
	return &door{config: c, token: sha256.Sum256([]byte(c.Token)), sessions: map[[sha256.Size]byte]time.Time{},
		invites: map[[sha256.Size]byte]time.Time{}}
}

// invite makes a code that opens the door once.
func (d *door) invite() string {
	code := rand.Text()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep(d.invites, sha256.Sum256([]byte(code)), LoginLasts)
	return code
}

// keep adds a key, and drops the one that ends first when there are too many. d.mu is held.
func (d *door) keep(m map[[sha256.Size]byte]time.Time, key [sha256.Size]byte, lasts time.Duration) {
	for len(m) >= d.config.Limits.Sessions {
		var first [sha256.Size]byte
		var ends time.Time
		for k, t := range m {
			if ends.IsZero() || t.Before(ends) {
				first, ends = k, t
			}
		}
		delete(m, first)
	}
	m[key] = d.config.Clock.Now().Add(lasts)
}

// cookieName differs between two consoles on one host: browsers tell cookies apart by host alone.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return cookiePrefix + port
	}
	return cookiePrefix + "0"
}

// open reports whether a request may see what the console shows.
func (d *door) open(r *http.Request) bool {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return d.isToken(token)
	}
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ends, known := d.sessions[sha256.Sum256([]byte(c.Value))]
	return known && d.config.Clock.Now().Before(ends)
}

func (d *door) isToken(text string) bool {
	got := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(got[:], d.token[:]) == 1
}

// admit checks what somebody shows, and counts what was wrong.
func (d *door) admit(token, invitation string) error {
	now := d.config.Clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.window) > time.Minute {
		d.tries, d.window = 0, now
	}
	if d.tries >= maxTries {
		return refusal(http.StatusTooManyRequests, "limit", "too many wrong tokens: wait a minute")
	}
	if invitation != "" {
		key := sha256.Sum256([]byte(invitation))
		ends, known := d.invites[key]
		delete(d.invites, key)
		if known && now.Before(ends) {
			return nil
		}
	} else if d.isToken(token) {
		return nil
	}
	d.tries++
	if invitation != "" {
		return refusal(http.StatusUnauthorized, "unauthorized",
			"this link has been used, or is too old: it works once, within %d minutes. Log in with the token, or start the "+
				"console again, which prints a new link", int(LoginLasts.Minutes()))
	}
	return refusal(http.StatusUnauthorized, "unauthorized", wrongTokenSay)
}

// login changes a token, or an invitation, for a cookie.
func (d *door) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Token      string `json:"token"`
		Invitation string `json:"invitation"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLoginBody))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		feed.Refuse(w, badRequest("the body is not a small JSON object with a token"))
		return
	}
	if err := d.admit(strings.TrimSpace(in.Token), in.Invitation); err != nil {
		feed.Refuse(w, err)
		return
	}
	value := rand.Text() + rand.Text()
	d.mu.Lock()
	d.keep(d.sessions, sha256.Sum256([]byte(value)), d.config.Limits.SessionAge)
	d.mu.Unlock()
	d.setCookie(w, r, value, int(d.config.Limits.SessionAge.Seconds()))
	w.WriteHeader(http.StatusNoContent)
}

func (d *door) setCookie(w http.ResponseWriter, r *http.Request, value string, maxAge int) {
	w.Header().Set("Cache-Control", "no-store")
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
}

// logout forgets the browser's session.
func (d *door) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		d.mu.Lock()
		delete(d.sessions, sha256.Sum256([]byte(c.Value)))
		d.mu.Unlock()
	}
	d.setCookie(w, r, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

// members serves only those who were let in.
func (d *door) members(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !d.open(r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="hence console"`)
			feed.Refuse(w, refusal(http.StatusUnauthorized, "unauthorized",
				"log in first, or send the console's token as Authorization: Bearer"))
			return
		}
		next(w, r)
	}
}
