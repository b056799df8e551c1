package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/console"
)

// focused is what has the focus, in a few words.
const focused = `(() => {
	const e = document.activeElement;
	return [e.tagName, e.id, e.className.baseVal ?? e.className, e.textContent.slice(0, 60)].join("|");
})()`

// ringed says whether what has the focus shows that it has.
const ringed = `(() => {
	const style = getComputedStyle(document.activeElement);
	const box = document.activeElement.querySelector?.(".box");
	return style.outlineStyle !== "none" || box && parseFloat(getComputedStyle(box).strokeWidth) > 2;
})()`

// press presses keys.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do("press a key", chromedp.KeyEvent(k))
	}
}

// byKeyboard does without a mouse: the skip link, the search, the ways through the views, and what has the focus is
// always to be seen.
func byKeyboard(b *browser, st *stage) {
	b.t.Helper()
	b.visit("#/live", "Live transactions")
	b.do("load the page again", chromedp.Reload())
	b.until("the page", `document.querySelector("h1")?.textContent === "Live transactions"`)
	b.press(kb.Tab)
	b.until("the skip link comes first", `document.activeElement.className === "skip"`)
	b.press(kb.Enter)
	b.until("the content has the focus", `document.activeElement.id === "main"`)
	for range 12 {
		b.press(kb.Tab)
		if !eval[bool](b, "document.activeElement === document.body || Boolean("+ringed+")") {
			b.t.Errorf("it cannot be seen that %s has the focus", eval[string](b, focused))
		}
	}
	b.press("/")
	b.until("the search has the focus", `document.activeElement.id === "search"`)
	eval[string](b, `document.activeElement.value = ""`) // the protocol types the key although the page has taken it
	b.press(st.refused)
	b.until("what was found", `document.querySelectorAll("[role=option][id]").length > 0`)
	b.shot("keyboard-search")
	b.press(kb.Enter)
	b.until("the transaction", fmt.Sprintf(`document.querySelector("h1").textContent.includes(%q)`, st.refused))
	b.until("its heading has the focus", `document.activeElement.tagName === "H1"`)
	b.visit("#/tx/"+st.chain, st.chain)
	b.until("a graph", `document.querySelectorAll("a.node").length > 2`)
	eval[bool](b, `document.querySelector("a.node").focus() ?? true`)
	b.until("the arcs of a node", `document.querySelectorAll(".arc.near").length > 0`)
	b.press(kb.Enter)
	b.until("another transaction", fmt.Sprintf(`!document.querySelector("h1").textContent.includes(%q)`, st.chain))
	eval[bool](b, `document.getElementById("theme").focus() ?? true`)
	b.press(kb.Enter)
	b.until("light by choice", `document.documentElement.dataset.theme === "light"`)
	b.press(kb.Enter)
	b.until("dark by choice", `getComputedStyle(document.body).backgroundColor === "rgb(17, 19, 23)"`)
	b.press(kb.Enter)
	for _, landmark := range []string{"main", "nav[aria-label]", "header.bar", "search", "[aria-live=polite]"} {
		if n := eval[float64](b, fmt.Sprintf("document.querySelectorAll(%q).length", landmark)); n < 1 {
			b.t.Errorf("the page has no %s", landmark)
		}
	}
	unnamed := eval[string](b, `[...document.querySelectorAll("button, a[href], input, select")].filter((e) =>
		!(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length)).map((e) => e.outerHTML).join(" ")`)
	if unnamed != "" {
		b.t.Errorf("a screen reader has no name for %s", unnamed)
	}
}

// operate accepts a residue through the sidecar, and looks what a retraction would undo.
func operate(b *browser, st *stage) {
	b.t.Helper()
	b.visit("#/residue", "Residue")
	b.until("the residue", `document.querySelectorAll(".residue button").length === 2`)
	b.do("ask to accept it", chromedp.Click(".residue button:last-child"))
	b.until("the dialog", `document.querySelector("dialog[open] textarea")`)
	b.press("Looked at the sink; the test accepts it.")
	b.shot("dialog-accept")
	b.do("accept it", chromedp.Click("dialog button.primary"))
	b.until("an empty list", `document.querySelector(".empty") && !document.querySelector("dialog")`)
	list, err := st.agents[0].Client.Residue(b.t.Context(), client.ResidueQuery{})
	if err != nil || len(list.Items) != 1 || list.Items[0].State != "accepted" {
		b.t.Errorf("the residue is not accepted: %+v, %v", list.Items, err)
	}
	b.shot("residue-empty")
	chain := st.link(b.t, b.t.Context()) // the one of before may be past the undo horizon by now
	b.visit("#/tx/"+chain, chain)
	const button = `[...document.querySelectorAll(".tools button:not([hidden])")].find((e) => ` +
		`e.textContent === "Retract…")`
	b.until("retraction", button)
	eval[bool](b, button+".click() ?? true")
	b.until("the cone", `document.querySelector("dialog .cone li")`)
	b.shot("dialog-retract")
	b.press(kb.Escape)
	b.until("no dialog", `!document.querySelector("dialog")`)
}

// carry exports a transaction and opens the file in a page that is logged out: nothing but files is asked for.
func carry(b *browser, st *stage) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "exported.hence.json")
	body := fetch(b, "/api/tx/"+st.left+"/export?content=1", "Bearer "+consoleToken)
	var report console.Report
	err := json.Unmarshal(body, &report)
	if err != nil || report.Format != console.ReportFormat || len(report.Effects) != 2 {
		b.t.Fatalf("the exported file has %d calls, format %q: %v", len(report.Effects), report.Format, err)
	}
	if !strings.Contains(report.Effects[0].Args, `"task"`) {
		b.t.Errorf("the exported calls are without arguments: %+v", report.Effects)
	}
	if err := os.WriteFile(file, body, 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.do("log out", chromedp.Click("button[title='Log out']"))
	b.until("the login", `document.getElementById("token")`)
	b.shot("login")
	b.visit("#/file", "Open a file")
	b.do("open the file", chromedp.SetUploadFiles("#file", []string{file}))
	b.until("the transaction of the file", fmt.Sprintf(`document.body.innerText.includes(%q) && `+
		`document.querySelector(".timeline li")`, st.left+" was aborted"))
	b.shot("file-opened")
	eval[string](b, `location.hash = "#/"`)
	b.until("the login", `document.getElementById("token")`)
	b.do("log in", chromedp.SendKeys("#token", consoleToken+kb.Enter))
	b.until("the overview", `document.querySelector("h1")?.textContent === "Overview"`)
}

// fetch asks the console as a program does.
func fetch(b *browser, path, authorization string) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), browserWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.host+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s: %.300s, %v", path, resp.Status, body, err)
	}
	return body
}
