package console

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/sidecar/console"
)

// TestConsoleUnderLoad walks every view while a thousand decisions a second come in. The page keeps drawing, its lists
// stay bounded, and it has counted every decision.
func TestConsoleUnderLoad(t *testing.T) {
	if testsize.Small() {
		t.Skipf("it takes ten seconds and more: set %s=1", testsize.Env)
	}
	chromium(t)
	total := harness.Number(t, "HENCE_IT_CONSOLE_DECISIONS", 10_000)
	source := newFlood(total)
	page, base := openConsole(t, console.Config{Source: source, Workspace: floodWorkspace, Token: consoleToken,
		Version: "test", Logger: harness.Logger(t)})
	b := openBrowser(t, base)
	b.do("log in by the printed link", chromedp.Navigate(base+"/"+page.LoginFragment()))
	b.until("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
	ctx, cancel := context.WithCancel(t.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() { source.run(ctx) })
	defer feeding.Wait()
	defer cancel()
	b.until("a thousand decisions", `document.querySelector(".link-state").textContent.replace(/\D/g, "") > 1000`)
	eval[bool](b, countFrames)
	tx := string(source.latest())
	began := time.Now()
	allBefore, scriptsBefore := b.busy()
	for _, v := range []struct{ name, hash, heading, shows string }{
		{"overview", "#/", "Overview", `document.querySelectorAll("tbody tr[aria-rowindex]").length > 5`},
		{"decisions", "#/decisions", "Decisions", `document.querySelectorAll("tbody tr[aria-rowindex]").length > 10`},
		{"live", "#/live", "Live transactions", `document.querySelector("table[aria-rowcount]").ariaRowCount > 1000`},
		{"gate", "#/gate", "Gate", `document.querySelector(".empty")`},
		{"residue", "#/residue", "Residue", `document.querySelectorAll(".residue").length === 40`},
		{"agents", "#/agents", "Agents", `document.body.innerText.includes("worker-23")`},
		{"lanes", "#/lanes", "Lanes", `document.querySelectorAll(".lane-bar").length > 24`},
		{"contended", "#/contended", "Fought over", `document.querySelectorAll("tbody tr[aria-rowindex]").length > 10`},
		{"scopes", "#/scopes", "Scopes", `document.body.innerText.includes("shard:/orders/10")`},
		{"tx", "#/tx/" + tx, tx, `document.querySelectorAll("svg.graph .node").length > 20`},
		{"overview-later", "#/", "Overview", `document.querySelectorAll("tbody tr[aria-rowindex]").length > 5`},
	} {
		b.visit(v.hash, v.heading)
		b.until(v.name, v.shows)
		seen := eval[float64](b, "window.frames_")
		b.until("further frames of "+v.name, fmt.Sprintf("window.frames_ > %v + 20", seen))
		b.shot("load-" + v.name)
		if n := eval[float64](b, `document.querySelectorAll("*").length`); n > 6000 {
			t.Errorf("%s has %v elements: lists are not bounded", v.name, n)
		}
	}
	frames, slow := eval[float64](b, "window.frames_"), eval[float64](b, "window.slow_")
	all, scripts := b.busy()
	took := time.Since(began)
	t.Logf("%d decisions in %v; %.0f frames, %.0f of them after more than 100 ms; the page worked %.0f %% of the time, "+
		"%.0f %% on scripts", source.head(), took.Round(time.Millisecond), frames, slow,
		100*(all-allBefore)/took.Seconds(), 100*(scripts-scriptsBefore)/took.Seconds())
	feeding.Wait()
	b.until("every decision", fmt.Sprintf(`document.querySelector(".link-state").textContent.endsWith(%q)`,
		grouped(total)))
	b.holds()
}

// countFrames counts the page's frames, and those that came late.
const countFrames = `(() => {
	let last = performance.now();
	window.frames_ = 0; window.slow_ = 0;
	const turn = (now) => {
		window.frames_++;
		if (now - last > 100) window.slow_++;
		last = now;
		requestAnimationFrame(turn);
	};
	requestAnimationFrame(turn);
	return true;
})()`

// grouped writes a number as the page does: 20,000.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// TestConsoleEmpty walks a workspace in which nothing has happened, on a telephone: every view says what to do.
func TestConsoleEmpty(t *testing.T) {
	chromium(t)
	page, base := openConsole(t, console.Config{Source: newFlood(0), Workspace: floodWorkspace, Token: consoleToken,
		Version: "test", Logger: harness.Logger(t)})
	b := openBrowser(t, base)
	b.do("log in by the printed link", chromedp.Navigate(base+"/"+page.LoginFragment()))
	b.until("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
	b.do("set the size of the window", chromedp.EmulateViewport(390, 900))
	for _, v := range []struct{ name, hash, heading string }{
		{"overview", "#/", "Overview"}, {"decisions", "#/decisions", "Decisions"}, {"gate", "#/gate", "Gate"},
		{"agents", "#/agents", "Agents"}, {"scopes", "#/scopes", "Scopes"}, {"live", "#/live", "Live"},
		{"residue", "#/residue", "Residue"}, {"lanes", "#/lanes", "Lanes"}, {"contended", "#/contended", "Fought"},
	} {
		b.visit(v.hash, v.heading)
		b.until("a word on what to do in "+v.name, `document.querySelector(".empty:not([hidden]) strong")`)
		b.inspect("empty-" + v.name)
		b.shot("empty-" + v.name)
	}
	b.holds()
}
