package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/sidecar/feed"
)

const (
	maxLoginBody  = 4 << 10
	cookiePrefix  = "hence_console_"
	wrongTokenSay = "that is not the console's token: it is in the console's --token-file, or was printed when it started"
)

// LoginLasts is how long a printed link is valid; it logs one browser in.
const LoginLasts = 10 * time.Minute

// hashed is the SHA-256 of a token, an invitation or a cookie.
type hashed = [sha256.Size]byte

// pass is what opens the door until a time: a browser's session, or an invitation.
type pass struct {
	ends time.Time
	over chan struct{} // closed when it is taken back before
}

// door lets people in: a token, or once an invitation, is changed for a cookie that scripts cannot read.
type door struct {
	config Config
	token  hashed

	mu       sync.Mutex
	sessions map[hashed]pass // by the hash of the cookie
	invites  map[hashed]pass
	wrong    tries
}

func newDoor(c Config) *door {
	return &door{config: c, token: sha256.Sum256([]byte(c.Token)), sessions: map[hashed]pass{},
		invites: map[hashed]pass{}}
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
func (d *door) keep(m map[hashed]pass, key hashed, lasts time.Duration) {
	for len(m) >= d.config.Limits.Sessions {
		var first hashed
		var ends time.Time
		for k, p := range m {
			if ends.IsZero() || p.ends.Before(ends) {
				first, ends = k, p.ends
			}
		}
		drop(m, first)
	}
	m[key] = pass{d.config.Clock.Now().Add(lasts), make(chan struct{})}
}

// drop takes a pass back, and ends what was opened with it.
func drop(m map[hashed]pass, key hashed) {
	if p, ok := m[key]; ok {
		close(p.over)
		delete(m, key)
	}
}

// cookieName differs between two consoles on one host: browsers tell cookies apart by host alone.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		return cookiePrefix + port
	}
	return cookiePrefix + "0"
}

// enter lets a request see what the console shows. One that comes with a cookie may do so until its pass ends; one
// with the token has none, and may for ever.
func (d *door) enter(r *http.Request) (*pass, error) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return nil, d.admit(r, token, "")
	}
	if c, err := r.Cookie(cookieName(r)); err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if p, ok := d.sessions[sha256.Sum256([]byte(c.Value))]; ok && d.config.Clock.Now().Before(p.ends) {
			return &p, nil
		}
	}
	return nil, refusal(http.StatusUnauthorized, "unauthorized",
		"log in first, or send the console's token as Authorization: Bearer")
}

func (d *door) isToken(text string) bool {
	got := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(got[:], d.token[:]) == 1
}

// admit checks what is shown, and counts what was wrong. An address that was wrong too often is not even told whether
// it is right now.
func (d *door) admit(r *http.Request, token, invitation string) error {
	now, from := d.config.Clock.Now(), addressOf(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if wait := d.wrong.wait(from, now); wait > 0 {
		return &tooManyTries{wait}
	}
	if invitation != "" {
		key := sha256.Sum256([]byte(invitation))
		p, known := d.invites[key]
		drop(d.invites, key)
		if known && now.Before(p.ends) {
			return nil
		}
	} else if d.isToken(token) {
		return nil
	}
	d.wrong.count(from, now)
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
	if err := d.admit(r, strings.TrimSpace(in.Token), in.Invitation); err != nil {
		turnAway(w, err)
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
		drop(d.sessions, sha256.Sum256([]byte(c.Value)))
		d.mu.Unlock()
	}
	d.setCookie(w, r, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

// members serves only those who were let in.
func (d *door) members(next http.HandlerFunc) http.HandlerFunc {
	return d.passing(func(w http.ResponseWriter, r *http.Request, _ *pass) { next(w, r) })
}

// streaming serves an answer that does not end to those who were let in, until they log out or their session ends.
func (d *door) streaming(next http.HandlerFunc) http.HandlerFunc {
	return d.passing(func(w http.ResponseWriter, r *http.Request, p *pass) {
		if p == nil {
			next(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		ended := d.config.Clock.After(p.ends.Sub(d.config.Clock.Now()))
		watching.Go(func() {
			defer cancel()
			select {
			case <-p.over:
			case <-ended:
			case <-ctx.Done():
			}
		})
		next(w, r.WithContext(ctx))
	})
}

func (d *door) passing(next func(http.ResponseWriter, *http.Request, *pass)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := d.enter(r)
		if err != nil {
			turnAway(w, err)
			return
		}
		next(w, r, p)
	}
}

// turnAway answers who was not let in.
func turnAway(w http.ResponseWriter, err error) {
	var many *tooManyTries
	if errors.As(err, &many) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(many.wait.Seconds()))))
		err = refusal(http.StatusTooManyRequests, "limit", "too many wrong tokens from this address: wait %s",
			many.wait.Round(time.Second))
	} else {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hence console"`)
	}
	feed.Refuse(w, err)
}
