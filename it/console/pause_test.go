package console

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/sidecar/console"
)

// askedOften runs what asks again and again, by hand: now() while an answer is under way asks once more behind it,
// never beside it, and leaves one loop.
const askedOften = `import("/js/store.js").then(async ({ poll }) => {
	const answer = [], took = [], turn = () => new Promise((r) => setTimeout(r));
	const asking = poll(1e6, () => new Promise((r) => answer.push(r)), (a) => took.push(a));
	asking.now(); asking.now();
	const beside = answer.length;
	answer[0]("older"); await turn();
	answer[1]("newer"); await turn();
	const behind = answer.length;
	asking.now(); await turn();
	answer[2]("alone"); await turn();
	asking.stop(); asking.now(); await turn();
	window.asked_ = [beside, behind, answer.length, ...took].join(" ");
}), true`

// TestConsolePauses stops the list of decisions while more come in, with a filter and without one.
func TestConsolePauses(t *testing.T) {
	if testsize.Small() {
		t.Skipf("it takes ten seconds and more: set %s=1", testsize.Env)
	}
	chromium(t)
	source := newFlood(200_000)
	page, base := openConsole(t, console.Config{Source: source, Workspace: floodWorkspace, Token: consoleToken,
		Version: "test", Logger: harness.Logger(t)})
	b := openBrowser(t, base)
	b.do("open an old link", chromedp.Navigate(base+"/#login=used"))
	b.until("the refusal", `document.querySelector("[role=alert]:not([hidden])")?.textContent.includes("too old")`)
	b.mu.Lock()
	b.errors = nil // the browser itself tells of every refusal
	b.mu.Unlock()
	b.do("log in by the printed link", chromedp.Navigate(base+"/"+page.LoginFragment()))
	b.until("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
	ctx, cancel := context.WithCancel(t.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() { source.run(ctx) })
	defer feeding.Wait()
	defer cancel()
	const first = `document.querySelector("tbody tr[aria-rowindex]")`
	const note = `document.querySelector(".below").textContent`
	for _, hash := range []string{"#/decisions", "#/decisions?kind=aborted"} {
		b.visit("#/", "Overview")
		b.visit(hash, "Decisions")
		b.until("decisions", first)
		b.do("pause", chromedp.Click(".button[aria-pressed=false]"))
		b.until("a pause", note+`.startsWith("Paused")`)
		row := eval[string](b, first+".textContent")
		b.until("newer ones that are only counted", note+`.replace(/\D/g, "") > 3`)
		if got := eval[string](b, first+".textContent"); got != row {
			t.Errorf("%s: the list goes on while it is paused: %q, then %q", hash, row, got)
		}
		b.do("filter", chromedp.SendKeys("input[name=agent]", floodAgent(3)+kb.Enter))
		b.until("what the new filter picks, still paused", first+" && "+note+`.startsWith("Paused") && [...document.`+
			fmt.Sprintf(`querySelectorAll("tbody tr[aria-rowindex]")].every((r) => r.textContent.includes(%q))`, floodAgent(3)))
		row = eval[string](b, first+".textContent")
		b.do("go on", chromedp.Click(".button[aria-pressed=true]"))
		b.until("newer ones", fmt.Sprintf(`%s.textContent !== %q && !%s.startsWith("Paused")`, first, row, note))
	}
	eval[bool](b, askedOften)
	b.until("an end of the questions", "window.asked_")
	if got := eval[string](b, "window.asked_"); got != "1 2 3 older newer alone" {
		t.Errorf("what is asked beside, behind, and in all, and the answers: %s", got)
	}
	b.holds()
}
