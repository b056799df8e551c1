package signature

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/hence-dev/hence/sidecar/api"
)

// TestVector holds the text that is signed, and how a signature is checked, against RFC 9421, B.2.6.
func TestVector(t *testing.T) {
	const request = "POST /foo?param=Value&Pet=dog HTTP/1.1\r\nHost: example.com\r\n" +
		"Date: Tue, 20 Apr 2021 02:07:55 GMT\r\nContent-Type: application/json\r\n" +
		"Content-Digest: " +
		"sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:" +
		"\r\nContent-Length: 18\r\n\r\n{\"hello\": \"world\"}"
	const input = `sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;` +
		`keyid="test-key-ed25519"`
	const signed = "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
	block, _ := pem.Decode([]byte("-----BEGIN PUBLIC KEY-----\n" +
		"MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=\n-----END PUBLIC KEY-----\n"))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	r := read(t, request)
	inputs, err := httpsfv.UnmarshalDictionary([]string{input})
	if err != nil {
		t.Fatal(err)
	}
	member, _ := inputs.Get("sig-b26")
	sum, err := base64.StdEncoding.DecodeString(signed)
	if err != nil {
		t.Fatal(err)
	}
	covered := member.(httpsfv.InnerList)
	if err := check(r, covered, key.(ed25519.PublicKey), sum); err != nil {
		t.Error(err)
	}
	if err := watchBody(r); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r.Body); err != nil || string(got) != `{"hello": "world"}` {
		t.Errorf("the body: %q, %v", got, err)
	}
	r.Header.Set("Date", "Tue, 20 Apr 2021 02:07:56 GMT")
	if check(r, covered, key.(ed25519.PublicKey), sum) == nil {
		t.Error("another date has the same signature")
	}
}

// read is a request as a server has it.
func read(t *testing.T, text string) *http.Request {
	t.Helper()
	var got *http.Request
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	s.Close()
	got.Body = io.NopCloser(strings.NewReader(string(body)))
	return got
}

var (
	seed  = ed25519.NewKeyFromSeed([]byte("a seed that is for tests alone.."))
	other = ed25519.NewKeyFromSeed([]byte("a seed that is for tests alone!!"))
)

const now = 1_800_000_000

// desk is a verifier with a clock that a test sets.
type desk struct {
	*Verifier
	signer *Signer
	at     time.Time
}

func newDesk() *desk {
	d, public := &desk{at: time.Unix(now-10, 0)}, seed.Public().(ed25519.PublicKey)
	d.Verifier = New(Config{Keys: map[string]ed25519.PublicKey{KeyID(public): public},
		Names: []string{"Hence.example"}, Now: func() time.Time { return d.at },
		Wait: func(_ context.Context, w time.Duration) error { d.at = d.at.Add(w); return nil }})
	d.at = time.Unix(now, 0)
	d.signer = NewSigner(seed)
	d.signer.Now = func() time.Time { return d.at }
	return d
}

// request is a signed one, as it comes to the sidecar.
func (d *desk) request(t *testing.T, s *Signer) *http.Request {
	t.Helper()
	const body = `{"order":"locked"}`
	const at = "http://hence.example/v1/workspaces/w/tx?wait_ms=10"
	r := httptest.NewRequest(http.MethodPost, at, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k-1")
	r.Header.Set("Hence-Session", "s")
	if err := s.Sign(r, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return r
}

func code(err error) string {
	var p *api.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// taken checks a request and reads its body.
func (d *desk) taken(r *http.Request) error {
	if _, err := d.Verify(r); err != nil {
		return err
	}
	_, err := io.ReadAll(r.Body)
	return err
}

// TestTampering: each thing that means something is as it was signed, or the request is refused.
func TestTampering(t *testing.T) {
	d := newDesk()
	if err := d.taken(d.request(t, d.signer)); err != nil {
		t.Fatalf("as it was signed: %v", err)
	}
	for name, change := range map[string]func(*http.Request){
		"the method":                 func(r *http.Request) { r.Method = http.MethodPut },
		"the path":                   func(r *http.Request) { r.URL.Path = "/v1/workspaces/v/tx" },
		"the path's escapes":         func(r *http.Request) { r.URL.RawPath = "/v1/workspaces/%77/tx" },
		"the query":                  func(r *http.Request) { r.URL.RawQuery = "wait_ms=11" },
		"no query":                   func(r *http.Request) { r.URL.RawQuery = "" },
		"the authority":              func(r *http.Request) { r.Host = "hence.example:81" },
		"the key of the request":     func(r *http.Request) { r.Header.Set("Idempotency-Key", "k-2") },
		"no key of the request":      func(r *http.Request) { r.Header.Del("Idempotency-Key") },
		"the conversation":           func(r *http.Request) { r.Header.Set("Hence-Session", "t") },
		"a second conversation":      func(r *http.Request) { r.Header.Add("Hence-Session", "t") },
		"the media type":             func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"another agent":              func(r *http.Request) { r.Header.Set("Hence-Agent", "b") },
		"a condition":                func(r *http.Request) { r.Header.Set("If-Match", `"7"`) },
		"an S-Bus name":              func(r *http.Request) { r.Header.Set("X-SBus-Agent-Id", "b") },
		"a transaction":              func(r *http.Request) { r.Header.Set("Hence-Tx", "t") },
		"where a stream begins":      func(r *http.Request) { r.Header.Set("Last-Event-ID", "7") },
		"the digest":                 func(r *http.Request) { r.Header.Set("Content-Digest", "sha-256=:AAAA:") },
		"the time":                   replace(inputHeader, "created=1800000000", "created=1800000001"),
		"the nonce":                  replace(inputHeader, `nonce="`, `nonce="A`),
		"the order of components":    replace(inputHeader, `"@method" "@authority"`, `"@authority" "@method"`),
		"an expiry":                  replace(inputHeader, `;tag=`, `;expires=1900000000;tag=`),
		"no signature":               func(r *http.Request) { r.Header.Del(signatureHeader) },
		"a signature of another one": func(r *http.Request) { resign(t, d, r) },
		"a broken list":              replace(inputHeader, `("@method"`, `(@method`),
		"a broken signature":         replace(signatureHeader, "=:", "=:!"),
		"two for a sidecar": func(r *http.Request) {
			r.Header.Add(inputHeader, strings.Replace(r.Header.Get(inputHeader), "hence=", "b=", 1))
		},
	} {
		r := d.request(t, d.signer)
		change(r)
		if err := d.taken(r); code(err) != api.CodeBadSignature {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func replace(header, a, b string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(header, strings.Replace(r.Header.Get(header), a, b, 1)) }
}

// resign puts another key's signature under the same text.
func resign(t *testing.T, d *desk, r *http.Request) {
	t.Helper()
	covered, _, err := ours(r.Header)
	if err != nil {
		t.Fatal(err)
	}
	text, err := base(r, *covered)
	if err != nil {
		t.Fatal(err)
	}
	out := httpsfv.NewDictionary()
	out.Add(label, httpsfv.NewItem(ed25519.Sign(other, text)))
	signed, err := httpsfv.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(signatureHeader, signed)
}

// TestBody: a body that is not the one that was signed is an error before its end, and stays one.
func TestBody(t *testing.T) {
	for name, body := range map[string]string{"changed": `{"order":"ordered"`, "shorter": `{"order":"lock"}`,
		"longer": `{"order":"locked"} `, "none": ""} {
		for _, said := range []bool{true, false} {
			d := newDesk()
			r := d.request(t, d.signer)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
			if said {
				r.ContentLength = int64(len(body))
			}
			_, err := d.Verify(r)
			if err == nil {
				got := make([]byte, len(body))
				_, err = io.ReadFull(r.Body, got)
				if err == nil && said && len(body) > 0 { // who reads as much as was said would act on it
					t.Errorf("%s: all of it is given", name)
				}
				if err == nil || len(body) == 0 {
					_, err = r.Body.Read(make([]byte, 1))
				}
				if _, again := r.Body.Read(make([]byte, 1)); code(again) != code(err) {
					t.Errorf("%s, length %t: then %v", name, said, again)
				}
			}
			if code(err) != api.CodeWrongDigest {
				t.Errorf("%s, length %t: %v", name, said, err)
			}
		}
	}
}

// TestParts: each component and each parameter that has to be there is asked for.
func TestParts(t *testing.T) {
	for _, part := range []string{`"@method" `, `"@authority" `, `"@path" `, `"@query" `, `"content-digest" `,
		`"content-type" `, `"hence-session" `, ` "idempotency-key"`, ";created=1800000000", `;alg="ed25519"`, ";keyid=",
		";nonce="} {
		d := newDesk()
		r := d.request(t, d.signer)
		had := r.Header.Get(inputHeader)
		at := strings.Index(had, part)
		if at < 0 {
			t.Fatalf("%s is not in %s", part, had)
		}
		end := at + len(part)
		if strings.HasSuffix(part, "=") {
			end += strings.Index(had[end+1:], `"`) + 2
		}
		r.Header.Set(inputHeader, had[:at]+had[end:])
		sign(t, r, seed)
		_, err := d.Verify(r)
		if code(err) != api.CodeBadSignature {
			t.Errorf("without %s: %v", part, err)
		}
	}
	d := newDesk()
	for name, change := range map[string]func(*http.Request){
		"another algorithm": replace(inputHeader, `alg="ed25519"`, `alg="hmac-sha256"`),
		"a short nonce": func(r *http.Request) {
			head, rest, _ := strings.Cut(r.Header.Get(inputHeader), `nonce="`)
			_, tail, _ := strings.Cut(rest, `"`)
			r.Header.Set(inputHeader, head+`nonce="abc"`+tail)
		},
		"a component twice": replace(inputHeader, `("@method"`, `("@method" "@method"`),
		"a parameter":       replace(inputHeader, `("@method"`, `("@method";req`),
		"an unknown part":   replace(inputHeader, `("@method"`, `("@status" "@method"`),
		"upper case":        replace(inputHeader, `"content-type"`, `"Content-Type" "content-type"`),
		"an unknown key":    replace(inputHeader, `keyid="`, `keyid="x`),
		"an odd expiry":     replace(inputHeader, `;tag=`, `;expires="x";tag=`),
		"no digest known":   func(r *http.Request) { r.Header.Set("Content-Digest", "md5=:AAAA:") },
		"an odd digest":     func(r *http.Request) { r.Header.Set("Content-Digest", "sha-256=1") },
		"a broken digest":   func(r *http.Request) { r.Header.Set("Content-Digest", "sha-256=:") },
	} {
		r := d.request(t, d.signer)
		change(r)
		trySign(r, seed)
		if _, err := d.Verify(r); code(err) != api.CodeBadSignature {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := d.request(t, d.signer)
	r.Header.Del(digestHeader) // a body, and nothing of it is signed
	replace(inputHeader, ` "content-digest"`, "")(r)
	sign(t, r, seed)
	if _, err := d.Verify(r); code(err) != api.CodeBadSignature || !strings.Contains(err.Error(), digestComponent) {
		t.Errorf("a body without a digest: %v", err)
	}
	r = d.request(t, d.signer)
	list, sums := r.Header.Get(inputHeader), r.Header.Get(signatureHeader)
	r.Header.Set(inputHeader, list+", "+strings.Replace(list, label, "other", 1))
	r.Header.Set(signatureHeader, sums+", "+strings.Replace(sums, label, "other", 1))
	if _, err := d.Verify(r); code(err) != api.CodeBadSignature || !strings.Contains(err.Error(), "several") {
		t.Errorf("two signatures for a sidecar: %v", err)
	}
	r = d.request(t, d.signer)
	r.Header.Set(inputHeader, strings.Replace(r.Header.Get(inputHeader), `"@path" "@query"`, `"@target-uri"`, 1))
	sign(t, r, seed)
	if _, err := d.Verify(r); err != nil {
		t.Errorf("with @target-uri in place of path and query: %v", err)
	}
}

// sign puts a key's signature under what the request says that it covers.
func sign(t *testing.T, r *http.Request, key ed25519.PrivateKey) {
	t.Helper()
	if !trySign(r, key) {
		t.Fatal("it cannot be signed")
	}
}

func trySign(r *http.Request, key ed25519.PrivateKey) bool {
	covered, _, err := ours(r.Header)
	if err != nil || covered == nil {
		return false
	}
	text, err := base(r, *covered)
	if err != nil {
		return false
	}
	out := httpsfv.NewDictionary()
	out.Add(label, httpsfv.NewItem(ed25519.Sign(key, text)))
	signed, err := httpsfv.Marshal(out)
	if err != nil {
		return false
	}
	r.Header.Set(signatureHeader, signed)
	return true
}

// TestOtherSignatures: those for others are none of a sidecar's, whatever they are.
func TestOtherSignatures(t *testing.T) {
	d := newDesk()
	r := d.request(t, d.signer)
	r.Header.Set(inputHeader, strings.Replace(r.Header.Get(inputHeader), `tag="hence"`, `tag="bank"`, 1)+`, p=1, q=("a")`)
	if id, err := d.Verify(r); id != "" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	r = d.request(t, d.signer)
	r.Header.Add(inputHeader, `q=("@method");created=1;tag="bank"`)
	r.Header.Add(signatureHeader, `q=:AAAA:`)
	if id, err := d.Verify(r); id != d.signer.id || err != nil {
		t.Errorf("beside another one's: %q, %v", id, err)
	}
}

// TestReplay: a request counts once, whatever becomes of the clock, and also where the process has restarted.
func TestReplay(t *testing.T) {
	d := newDesk()
	first := d.request(t, d.signer)
	again := first.Clone(t.Context())
	if _, err := d.Verify(first); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Verify(again); code(err) != api.CodeSignatureSeen {
		t.Errorf("twice: %v", err)
	}
	d.at = d.at.Add(Window)
	if _, err := d.Verify(again); code(err) != api.CodeSignatureSeen {
		t.Errorf("twice, after the window: %v", err)
	}
	d.at = d.at.Add(time.Second)
	if _, err := d.Verify(again); code(err) != api.CodeSignatureTime {
		t.Errorf("twice, later: %v", err)
	}
	if _, err := d.Verify(d.request(t, d.signer)); err != nil {
		t.Fatal(err)
	}
	if n := len(d.seen[d.signer.id].all); n != 1 {
		t.Errorf("%d nonces are remembered, want that of the last request", n)
	}
	d.at = d.at.Add(-Window) // the clock is set back: what was forgotten stays refused
	if _, err := d.Verify(again); code(err) != api.CodeSignatureTime {
		t.Errorf("twice, with the clock set back: %v", err)
	}
	d.at = time.Unix(now, 0).Add(800 * time.Millisecond)
	anew := New(d.Config)
	if _, err := anew.Verify(again); code(err) != api.CodeSignatureTime {
		t.Errorf("twice, to a process that has just started: %v", err)
	}
}

// TestClock: a request is taken for a minute; one from a moment ahead waits until it is not.
func TestClock(t *testing.T) {
	for _, one := range []struct {
		skew time.Duration
		code string
		ends int64
	}{{-Window - time.Second, api.CodeSignatureTime, now}, {-Window, "", now}, {0, "", now},
		{3 * time.Second, "", now + 3},
		{Ahead, "", now + 5}, {Ahead + time.Second, api.CodeSignatureTime, now}} {
		d := newDesk()
		d.at = time.Unix(now-1000, 0)
		d.Verifier = New(d.Config)
		d.at = time.Unix(now, 0)
		r := d.request(t, &Signer{key: seed, id: d.signer.id, Now: func() time.Time { return d.at.Add(one.skew) }})
		if _, err := d.Verify(r); code(err) != one.code || d.at.Unix() != one.ends {
			t.Errorf("signed %v from now: %v, at %d", one.skew, err, d.at.Unix()-now)
		}
	}
	d := newDesk()
	d.Verifier.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := d.request(t, &Signer{key: seed, id: d.signer.id, Now: func() time.Time { return d.at.Add(time.Second) }})
	if _, err := d.Verify(r.WithContext(gone)); code(err) != api.CodeUndecided {
		t.Errorf("a caller that goes while it waits: %v", err)
	}
	d = newDesk()
	for _, past := range []bool{true, false} {
		r := d.request(t, d.signer)
		at := ";expires=1800000001"
		if past {
			at = ";expires=1800000000"
		}
		r.Header.Set(inputHeader, r.Header.Get(inputHeader)+at)
		sign(t, r, seed)
		if _, err := d.Verify(r); (code(err) == api.CodeSignatureTime) != past {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestNoncesAreBounded: what is remembered of a key has a bound, and is not forgotten for it.
func TestNoncesAreBounded(t *testing.T) {
	d := newDesk()
	first := d.request(t, d.signer)
	again := first.Clone(t.Context())
	if _, err := d.Verify(first); err != nil {
		t.Fatal(err)
	}
	n := d.seen[d.signer.id]
	for i := len(n.all); i < maxNonces; i++ {
		n.all[strings.Repeat("x", 16)+time.Duration(i).String()] = now
	}
	if _, err := d.Verify(d.request(t, d.signer)); code(err) != api.CodeBusy {
		t.Errorf("one too many: %v", err)
	}
	if _, err := d.Verify(again); code(err) != api.CodeSignatureSeen {
		t.Errorf("one that was seen: %v", err)
	}
}

// TestAddress: a request that was signed for another sidecar is refused by this one.
func TestAddress(t *testing.T) {
	d := newDesk()
	for at, local := range map[string]string{
		"hence.example": "", "HENCE.example:80": "", "10.0.0.5:7420": "10.0.0.5:7420", "localhost:7420": "127.0.0.1:7420",
		"[::1]:7420": "[::1]:7420", "127.0.0.1": "127.0.0.1:80"} {
		if err := d.sentTo(t, at, local); err != nil {
			t.Errorf("%s at %s: %v", at, local, err)
		}
	}
	for at, local := range map[string]string{
		"hence.example:81": "", "10.0.0.5:7420": "10.0.0.6:7420", "localhost:7420": "10.0.0.5:7420",
		"127.0.0.1:7421": "127.0.0.1:7420", "evil.example": "127.0.0.1:80", "10.0.0.5": ""} {
		if err := d.sentTo(t, at, local); code(err) != api.CodeBadSignature {
			t.Errorf("%s at %s: %v", at, local, err)
		}
	}
}

// sentTo checks a request to an authority that comes to an address here.
func (d *desk) sentTo(t *testing.T, at, local string) error {
	t.Helper()
	ctx := t.Context()
	if local != "" {
		addr, err := net.ResolveTCPAddr("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, addr)
	}
	r := httptest.NewRequest(http.MethodGet, "http://"+at+"/v1/residue", nil).WithContext(ctx)
	if err := d.signer.Sign(r, nil); err != nil {
		t.Fatal(err)
	}
	_, err := d.Verify(r)
	return err
}

// FuzzHeaders: whatever the headers are, they are refused or not ours.
func FuzzHeaders(f *testing.F) {
	d := newDesk()
	r := httptest.NewRequest(http.MethodGet, "http://hence.example/v1/residue", nil)
	if err := d.signer.Sign(r, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(r.Header.Get(inputHeader), r.Header.Get(signatureHeader), "")
	f.Add(`a=("@method";req "x-y");tag="hence";created=1`, `a=:AAAA:`, "sha-256=:AAAA:, sha-512=?1")
	f.Add(`a=();tag="hence", b;tag="hence"`, `a=1, b`, "sha-256")
	f.Add(`hence=("@query" "@target-uri" "@request-target" "@scheme");nonce="0123456789abcdef";keyid="k";alg="ed25519";`+
		`created=-1;expires=9;tag="hence"`, `hence=:`+strings.Repeat("A", 86)+`==:`, "")
	f.Fuzz(func(t *testing.T, input, signed, digest string) {
		r := httptest.NewRequest(http.MethodPost, "http://hence.example/v1/residue?a", strings.NewReader("x"))
		r.Header = http.Header{inputHeader: {input}, signatureHeader: {signed}}
		if digest != "" {
			r.Header[digestHeader] = []string{digest}
		}
		id, err := newDesk().Verify(r)
		if id != "" && err == nil {
			t.Errorf("taken as %s", id)
		}
		if err != nil && api.AsProblem(err).Status != http.StatusUnauthorized {
			t.Errorf("refused as %v", err)
		}
		_ = watchBody(r)
		_, _ = io.ReadAll(r.Body)
	})
}

// TestRedirect: what a redirect asks for is not signed, whoever the client is.
func TestRedirect(t *testing.T) {
	arrived := 0
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived++ }))
	defer to.Close()
	between := httptest.NewServer(http.RedirectHandler(to.URL+"/v1/other", http.StatusTemporaryRedirect))
	defer between.Close()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: NewSigner(key).Transport(http.DefaultTransport)}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for _, body := range []io.Reader{nil, strings.NewReader("1")} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, between.URL+"/v1/mine", body)
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Do(r)
		if err == nil {
			_ = out.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), to.URL+"/v1/other, and no request is signed") || arrived > 0 {
			t.Errorf("%v; %d requests have arrived", err, arrived)
		}
	}
}
