package console

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/console"
)

// widths are a desk, a tablet and a telephone.
var widths = []int64{1440, 820, 390}

// pageAt is one page: where it is, its heading, and what says that it is drawn.
type pageAt struct{ name, hash, heading, ready string }

func txHash(tx sequencer.TxID) string { return "#/tx/" + url.PathEscape(string(tx)) }

func showcasePages() []pageAt {
	rows := `document.querySelectorAll("tbody tr[aria-rowindex]").length > `
	return []pageAt{
		{"overview", "#/", "Overview", `document.querySelectorAll("section tbody tr[aria-rowindex]").length > 3`},
		{"decisions", "#/decisions", "Decisions", rows + "10"},
		{"live", "#/live", "Live transactions", rows + "10"},
		{"lanes", "#/lanes", "Lanes", `document.querySelectorAll(".lane-bar").length > 20`},
		{"contended", "#/contended", "Fought over", rows + "3"},
		{"gate", "#/gate", "Gate", `document.querySelectorAll("table.free").length === 2`},
		{"residue", "#/residue", "Residue", `document.querySelectorAll(".residue").length === 6`},
		{"agents", "#/agents", "Agents", rows + "10"},
		{"scopes", "#/scopes", "Scopes", rows + "10"},
		{"tx-refused", txHash(showTx(showRefused)), string(showTx(showRefused)), `document.querySelector(".node.over")`},
		{"tx-waiting", txHash(showTx(showWaiting)), string(showTx(showWaiting)), `document.querySelector(".sentence a")`},
		{"tx-held", txHash(showTx(showHeld)), string(showTx(showHeld)), `document.querySelector("table.free")`},
		{"tx-retracted", txHash(showTx(showRetracted)), string(showTx(showRetracted)),
			`document.querySelector(".timeline")`},
		{"file", "#/file", "Open a file", `document.querySelector(".drop")`},
	}
}

// TestConsoleWidths looks at every page on a desk, a tablet and a telephone: nothing scrolls sideways, nothing is cut,
// everything has a name and can be read in both colours, and every name in a sentence leads to what it names.
func TestConsoleWidths(t *testing.T) {
	chromium(t)
	b := openShowcase(t, newShowcase(false))
	for _, width := range widths {
		b.do("set the size of the window", chromedp.EmulateViewport(width, 900))
		for _, v := range showcasePages() {
			where := fmt.Sprintf("%d-%s", width, v.name)
			b.visit(v.hash, v.heading)
			b.until(where, v.ready)
			b.inspect(where)
			b.shot(where)
			if width == 820 {
				continue // it has the colours of one neighbour and the names of the other
			}
			b.scheme("dark")
			b.inspect("dark-" + where)
			b.scheme("light")
			b.checkNames(where)
		}
	}
	keepsWaits(b)
	followSentences(b)
	b.do("set the size of the window", chromedp.EmulateViewport(1440, 900))
	drawsOvertaker(b)
	drawsLanes(b)
	speaksOfOneTime(b)
	b.holds()
}

// openShowcase opens the console over a source that goes on.
func openShowcase(t *testing.T, source *showcase) *browser {
	t.Helper()
	page, base := openConsole(t, console.Config{Source: source, Workspace: floodWorkspace, Token: consoleToken,
		Version: "test", Logger: harness.Logger(t)})
	b := openBrowser(t, base)
	b.scheme("light")
	b.do("log in by the printed link", chromedp.Navigate(base+"/"+page.LoginFragment()))
	b.until("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
	ctx, cancel := context.WithCancel(t.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() { source.run(ctx) })
	t.Cleanup(func() { cancel(); feeding.Wait() })
	b.until("some seconds of figures", `parseFloat(document.querySelector(".tile .value").textContent) > 0`)
	return b
}

// keepsWaits: on a telephone a transaction still says what it waits for, in full.
func keepsWaits(b *browser) {
	b.t.Helper()
	b.visit("#/live", "Live transactions")
	b.until("cards", `document.querySelector("table.cards [data-name='Waits for'] a.scope")`)
	wrong := eval[string](b, `[...document.querySelectorAll("table.cards tbody tr[aria-rowindex]")].filter((tr) => {
		const cell = tr.querySelector("[data-name='Waits for']");
		return !cell.checkVisibility() || cell.getBoundingClientRect().height < 20 ||
			getComputedStyle(cell, "::before").content !== '"Waits for"';
	}).map((tr) => tr.textContent).join("; ")`)
	if wrong != "" {
		b.t.Errorf("these cards do not say what they wait for: %.300s", wrong)
	}
	eval[bool](b, `document.querySelector(".button.more").click() ?? true`)
	b.until("more cards", `document.querySelectorAll("table.cards tbody tr[aria-rowindex]").length > 30`)
}

// followSentences goes to every link of the sentences with Tab and Enter.
func followSentences(b *browser) {
	b.t.Helper()
	followed := 0
	for _, n := range []int{showRefused, showWaiting} {
		tx := showTx(n)
		open := func() int {
			b.visit("#/agents", "Agents")
			b.visit(txHash(tx), string(tx))
			b.until("a sentence with links", `document.querySelector(".sentence a")`)
			return int(eval[float64](b, `document.querySelectorAll(".sentence a").length`))
		}
		for i := range open() {
			if i > 0 {
				open()
			}
			here := fmt.Sprintf(`document.activeElement === document.querySelectorAll(".sentence a")[%d]`, i)
			for tabs := 0; !eval[bool](b, here); tabs++ {
				if tabs > 12 {
					b.t.Fatalf("link %d of the sentence of %s is not reached by Tab", i, tx)
				}
				b.press(kb.Tab)
			}
			href := eval[string](b, `document.activeElement.getAttribute("href")`)
			b.press(kb.Enter)
			b.until("the page of "+href, fmt.Sprintf(`location.hash === %q && document.querySelector("h1")`, href))
			if wrong := eval[string](b, `[...document.querySelectorAll("[role=status] .notice")].map((e) =>
				e.textContent).join()`); wrong != "" {
				b.t.Errorf("%s leads to: %s", href, wrong)
			}
			followed++
		}
	}
	if followed < 5 {
		b.t.Errorf("the sentences have only %d links", followed)
	}
}

// drawsOvertaker: who moved the ground is in the graph, in red, with the scope on the edge; the timeline comes first.
func drawsOvertaker(b *browser) {
	b.t.Helper()
	tx, by := showTx(showRefused), showTx(showRefused-1)
	b.visit(txHash(tx), string(tx))
	b.until("an overtaker", fmt.Sprintf(`document.querySelector("a.node.over")?.getAttribute("href") === %q`, txHash(by)))
	on := eval[string](b, `document.querySelector(".on-arc title").textContent`)
	if on != string(showScope(showRefused)) {
		b.t.Errorf("the red edge is about %q", on)
	}
	if red := eval[string](b, `getComputedStyle(document.querySelector(".arc.over")).stroke`); red != "rgb(176, 48, 42)" {
		b.t.Errorf("the overtaker's edge is %s", red)
	}
	if !eval[bool](b, `document.querySelector(".timeline").getBoundingClientRect().bottom <
		document.querySelector(".graph").getBoundingClientRect().top`) {
		b.t.Error("the graph comes before the timeline")
	}
}

// drawsLanes: every bar has a name, arrows lead from one to the next, and what is left out is said.
func drawsLanes(b *browser) {
	b.t.Helper()
	b.visit("#/lanes", "Lanes")
	b.until("arrows of who refused whom", `document.querySelectorAll(".ties.refuses").length > 2`)
	b.until("what is left out", `document.body.innerText.includes("Left out, because a drawing is bounded")`)
	if n := eval[float64](b, `document.querySelectorAll("svg.lanes > g[role=group]").length`); n != 24 {
		b.t.Errorf("%v lanes are drawn", n)
	}
	eval[bool](b, `document.querySelector(".lane-bar[tabindex='0']").focus() ?? true`)
	first := eval[string](b, `document.activeElement.getAttribute("aria-label")`)
	b.press(kb.ArrowDown)
	second := eval[string](b, `document.activeElement.getAttribute("aria-label")`)
	if first == second || !strings.Contains(second, "read") {
		b.t.Errorf("the arrow key leads from %q to %q", first, second)
	}
	b.press(kb.Enter)
	b.until("its transaction", `location.hash.startsWith("#/tx/")`)
	b.visit("#/lanes", "Lanes")
	b.until("bars", `document.querySelector(".lane-bar")`)
	b.do("open the table", chromedp.Click("main details summary"))
	b.until("the same in words", `document.querySelectorAll("main details tbody tr").length > 20`)
}

// speaksOfOneTime: the figures of the cards are of the plots' time and say so; what the page is made of writes
// durations, counts, names and states one way.
func speaksOfOneTime(b *browser) {
	b.t.Helper()
	b.visit("#/", "Overview")
	b.until("figures of the whole time", `[...document.querySelectorAll(".tile .sub")].slice(0, 3).every((e) =>
		/in the last \d/.test(e.textContent))`)
	b.until("the sum of the plot is that of the card", `(() => {
		const [done] = document.querySelector(".tile .sub").textContent.match(/^[\d,]+/);
		const said = document.querySelector(".plot-card .hidden-text").textContent.match(/([\d,]+) commits/)[1];
		return done === said;
	})()`)
	for _, c := range []struct{ name, module, expression, want string }{
		{"durations", "format", "[0.2, 4, 999.7, 1000, 1240, 5000, 9999, 61000, 120000, 7.5e6, 9e7].map(m.span)",
			"< 1 ms|4 ms|1 s|1 s|1.2 s|5 s|10 s|1 min 1 s|2 min|2 h 5 min|1 d 1 h"},
		{"counts", "format", "[0, 0.5, 999, 1000, 1240, 9960, 5e5, 2e6].map(m.count)", "0|0.5|999|1k|1.2k|10k|500k|2M"},
		{"names in a sentence", "links", `m.linked("a.1.1: refused at shard:/x/1, moved at seq 7 by b.1.12: shard:/x/11 " +
			"of b.1.1.", { tx: ["b.1.1", "b.1.12"], scope: ["shard:/x", "shard:/x/1"], agent: ["b", "a"] })
			.filter((x) => x.href).map((x) => x.textContent)`, "shard:/x/1|seq 7|b.1.12|b.1.1"},
		{"states", "states", `["not_sent", "a_later_one"].map((x) => m.look(x)[0])
			.concat(["confirmed", "aborted"].map((kind) => m.listed({ kind })))`, "not sent|a later one|false|true"},
	} {
		eval[string](b, fmt.Sprintf(`(window.said_ = null, import("/js/%s.js").then((m) => {
			window.said_ = (%s).join("|");
		}), "")`, c.module, c.expression))
		b.until(c.name, "window.said_ !== null")
		if got := eval[string](b, "window.said_"); got != c.want {
			b.t.Errorf("%s are written\n%s, not\n%s", c.name, got, c.want)
		}
	}
}

// TestConsoleObserving looks at a workspace that only observes, on a telephone.
func TestConsoleObserving(t *testing.T) {
	chromium(t)
	b := openShowcase(t, newShowcase(true))
	b.do("set the size of the window", chromedp.EmulateViewport(390, 900))
	for _, v := range []pageAt{
		{"contended", "#/contended", "Fought over", `document.body.innerText.includes("only observed")`},
		{"lanes", "#/lanes", "Lanes", `document.querySelector(".ties.refuses")`},
		{"tx", txHash(showTx(showRefused)), string(showTx(showRefused)),
			`document.querySelector(".node.over") && document.body.innerText.includes("It only observed")`},
	} {
		b.visit(v.hash, v.heading)
		b.until(v.name, v.ready)
		b.inspect("observing-" + v.name)
		b.shot("observing-" + v.name)
	}
	b.holds()
}
