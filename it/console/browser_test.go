package console

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// The variables of the environment that browser tests read.
const (
	envChromium    = "HENCE_CHROMIUM"         // the browser's binary
	envNeedBrowser = "HENCE_REQUIRE_CHROMIUM" // 1: without a browser the tests fail
	envShots       = "HENCE_SCREENSHOTS"      // folder for the pictures; default: a temporary one
)

// browserWait is how long the page may take until it shows what is waited for; the machine may be busy.
const browserWait = 45 * time.Second

// browser is one headless Chromium with one page, and what it did.
type browser struct {
	t     *testing.T
	ctx   context.Context
	host  string // of the console
	shots string

	mu       sync.Mutex
	errors   []string // of the page's console, and exceptions
	strange  []string // requests to other hosts
	policies map[string]string
	requests int
}

// openBrowser starts Chromium for pages of one host. It closes with the test, which fails if the page complained or
// asked another host.
func openBrowser(t *testing.T, base string) *browser {
	t.Helper()
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, host: at.Host, shots: shotFolder(t), policies: map[string]string{}}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.WindowSize(1440, 900), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(browserWait))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b.ctx = ctx
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("close the browser: %v", err)
		}
		cancel()
		stop()
	})
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	b.do("set the size of the window", chromedp.EmulateViewport(1440, 900))
	enable(b, network.Enable, network.EnableParams{})
	enable(b, performance.Enable, performance.EnableParams{})
	enable(b, log.Enable, cdp.Empty{})
	enable(b, runtime.Enable, cdp.Empty{})
	return b
}

// enable asks the page for a kind of events.
func enable[P, R any](b *browser, cmd cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, cmd, params); err != nil {
		b.t.Fatalf("%s: %v", cmd.Method, err)
	}
}

// chromium finds the browser.
func chromium(t *testing.T) string {
	t.Helper()
	path := os.Getenv(envChromium)
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path == "" {
			path, _ = exec.LookPath(name)
		}
	}
	if path == "" {
		if os.Getenv(envNeedBrowser) == "1" {
			t.Fatalf("no browser: run apt-get install chromium, or name one in %s", envChromium)
		}
		t.Skipf("a browser is missing: run apt-get install chromium, or name one in %s", envChromium)
	}
	return path
}

// shotFolder is where the pictures go.
func shotFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(envShots)
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "hence-console-")
	} else {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// hear notes what the page did. It must not wait.
func (b *browser) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.requests++
		at, err := url.Parse(e.Request.URL)
		if err != nil || at.Scheme != "data" && at.Scheme != "about" && at.Host != b.host {
			b.strange = append(b.strange, e.Request.URL)
		}
	case *network.EventResponseReceived:
		for name, value := range e.Response.Headers {
			if strings.EqualFold(name, "Content-Security-Policy") {
				b.policies[e.Response.URL] = fmt.Sprint(value)
			}
		}
		if _, known := b.policies[e.Response.URL]; !known {
			b.policies[e.Response.URL] = ""
		}
	case *runtime.EventExceptionThrown:
		what := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			what += " " + e.ExceptionDetails.Exception.Description
		}
		b.errors = append(b.errors, fmt.Sprintf("exception: %s (%s:%d)", what, e.ExceptionDetails.URL,
			e.ExceptionDetails.LineNumber))
	case *runtime.EventConsoleAPICalled:
		b.errors = append(b.errors, fmt.Sprintf("console.%s", e.Type))
	case *log.EventEntryAdded:
		b.errors = append(b.errors, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	}
}

// do runs steps and fails the test with what was being done.
func (b *browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserWait)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.shot("failed")
		b.t.Fatalf("%s: %v; %v", what, err, b.complaints())
	}
}

// eval is the value of an expression in the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserWait)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true in the page.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	deadline := time.After(browserWait)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !eval[bool](b, "Boolean("+expression+")") {
		select {
		case <-look.C:
		case <-deadline:
			b.shot("failed")
			b.t.Fatalf("%s does not come: %s is not true after %v; %v; page: %.2000s", what, expression, browserWait,
				b.complaints(), eval[string](b, "document.body.innerText"))
		}
	}
}

// scheme sets the colours that the system prefers.
func (b *browser) scheme(name string) {
	b.t.Helper()
	enable(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// shot writes a picture of what can be seen.
func (b *browser) shot(name string) {
	b.t.Helper()
	if name != "failed" {
		b.until("an end of what moves", `document.getAnimations().every((a) => a.playState !== "running")`)
	}
	ctx, cancel := context.WithTimeout(b.ctx, browserWait)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(b.shots, name+".png"), png, 0o644)
	}
	if err != nil {
		b.t.Errorf("take a picture of %s: %v", name, err)
	}
}

// busy is how long the page has worked so far, in seconds: all of it, and on scripts alone.
func (b *browser) busy() (all, scripts float64) {
	b.t.Helper()
	got, err := chromedp.Call(b.ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, m := range got.Metrics {
		switch m.Name {
		case "TaskDuration":
			all = m.Value
		case "ScriptDuration":
			scripts = m.Value
		}
	}
	return all, scripts
}

// visit goes to a view of the console and waits for its heading.
func (b *browser) visit(hash, heading string) {
	b.t.Helper()
	eval[string](b, fmt.Sprintf("location.hash = %q", hash))
	b.until("the view "+hash, fmt.Sprintf(`document.querySelector("h1")?.textContent.includes(%q)`, heading))
}

// complaints are what the page said on its console, and where it went that it should not.
func (b *browser) complaints() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all = append(all, b.errors...)
	for _, s := range b.strange {
		all = append(all, "request to another host: "+s)
	}
	return all
}

// holds checks what every page of the console must keep to.
func (b *browser) holds() {
	b.t.Helper()
	for _, c := range b.complaints() {
		b.t.Error(c)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.policies) < 10 {
		b.t.Errorf("only %d answers were seen: the page has more files", len(b.policies))
	}
	for at, policy := range b.policies {
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			b.t.Errorf("%s has the policy %q", at, policy)
		}
	}
	b.t.Logf("%d requests, all to %s; pictures are in %s", b.requests, b.host, b.shots)
}
