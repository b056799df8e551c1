package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDevServesConsole: the printed address is a page; what the workspace says is shown with the token.
func TestDevServesConsole(t *testing.T) {
	d := startDev(t)
	page, code, ok := strings.Cut(d.Console, "/#login=")
	if !ok || len(code) < 20 {
		t.Fatalf("the console is at %q: want an address that logs in", d.Console)
	}
	for _, c := range []struct {
		path, token, has string
		status           int
	}{
		{"/", "", "<title>Hence console</title>", 200},
		{"/readyz", "", `"ready"`, 200},
		{"/api/about", "", "log in first", 401},
		{"/api/about", d.Token, `"actions":true`, 200},
	} {
		got := look(t, page+c.path, c.token)
		if !strings.HasPrefix(got, fmt.Sprint(c.status)) || !strings.Contains(got, c.has) {
			t.Errorf("%s: %s; want %d with %s", c.path, got, c.status, c.has)
		}
	}
}

// look is the status and the body of an answer.
func look(t *testing.T, url, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(body))
}

// TestConsole serves the page over the servers of "hence dev", with its sidecar for what an operator may do, and ends
// when it is told to.
func TestConsole(t *testing.T) {
	d := startDev(t)
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(d.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	listens := fmt.Sprint("127.0.0.1:", freePorts(t, 1)[0])
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, w := io.Pipe()
	ended := make(chan int, 1)
	var errs strings.Builder
	go func() {
		code := Main(ctx, []string{"console", "--listen", listens, "--brokers", d.Brokers[0], "--nats", d.NATS,
			"--sidecar", d.URL, "--sidecar-token-file", secret, "--token", "look",
			"--public-url", "http://pages.localhost:1234/"},
			Streams{In: strings.NewReader(""), Out: w, Err: &errs})
		_ = w.Close()
		ended <- code
	}()
	var page, link string
	if _, err := fmt.Fscanf(out, "console of workspace default is ready at %s\nThis link logs one browser in: %s\n",
		&page, &link); err != nil {
		t.Fatalf("what it prints: %v; %s", err, errs.String())
	}
	if !strings.HasPrefix(link, page+"/#login=") {
		t.Errorf("the link is %s, the page is at %s", link, page)
	}
	if page != "http://pages.localhost:1234" {
		t.Errorf("the page is shown at %s", page)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "It works once, within 10 minutes; then use the token, or start again.\n" {
		t.Errorf("of the link it says: %s", line)
	}
	if got := look(t, "http://"+listens+"/api/about", "look"); !strings.Contains(got, `"actions":true`) {
		t.Errorf("what it says about itself: %s", got)
	}
	stop()
	if code := <-ended; code != ExitOK {
		t.Errorf("it ends with %d: %s", code, errs.String())
	}
}

// TestConsoleBadFlags: what cannot be is said before anything is served.
func TestConsoleBadFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--sidecar", "http://127.0.0.1:1"}, "--sidecar-token-file"},
		{[]string{"--sidecar", "http://127.0.0.1:1", "--sidecar-token", "a", "--sidecar-token-file", "/b"}, "given twice"},
		{[]string{"--workspace", "a|b"}, "workspace"},
		{[]string{"--public-url", "localhost:7422"}, "http://HOST:PORT"},
		{[]string{"--public-url", "http://example.org/console"}, "http://HOST:PORT"},
		{[]string{"--listen", "no-such-address"}, "--listen"},
	} {
		code, _, errs := hence(t, append([]string{"console", "--token", "look"}, c.args...)...)
		if code != ExitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d, %q; want %q", c.args, code, errs, c.want)
		}
	}
}
