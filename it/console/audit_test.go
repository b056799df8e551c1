package console

import (
	"encoding/json"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
)

// inspection looks at every text of the page: none leads out of the window, none is cut without saying the whole of it
// to who points at it, none is hard to read. It answers what is wrong, a line each.
const inspection = `(() => {
	const faults = new Set();
	const fault = (what, e) => faults.add(what + ": <" + e.tagName.toLowerCase() + " " +
		(e.getAttribute("class") ?? "") + "> " + e.textContent.trim().slice(0, 60));
	const pixel = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
	const colours = new Map();
	const rgba = (colour) => {
		if (!colours.has(colour)) {
			pixel.clearRect(0, 0, 1, 1);
			pixel.fillStyle = colour;
			pixel.fillRect(0, 0, 1, 1);
			const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
			colours.set(colour, [r, g, b, a / 255]);
		}
		return colours.get(colour);
	};
	const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3])).concat(1);
	const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 :
		((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => {
		const layers = [];
		const box = e.closest(".node")?.querySelector(".box");
		if (box) layers.push(rgba(getComputedStyle(box).fill));
		for (let at = e; at; at = at.parentElement) {
			const c = rgba(getComputedStyle(at).backgroundColor);
			if (c[3] > 0) layers.push(c);
			if (c[3] === 1) break;
		}
		return layers.reduceRight((below, top) => over(top, below), [255, 255, 255, 1]);
	};
	const contrast = (e, colour, size, weight) => {
		const ground = behind(e);
		const [a, b] = [light(over(rgba(colour), ground)), light(ground)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < (size >= 24 || size >= 18.66 && weight >= 700 ? 3 : 4.5)) fault("contrast " + ratio.toFixed(2), e);
	};
	if (document.documentElement.scrollWidth > innerWidth) faults.add("the page is " +
		document.documentElement.scrollWidth + " pixels wide in a window of " + innerWidth);
	for (const e of document.body.querySelectorAll("*")) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim() !== "");
		const field = e.matches("input, textarea, select");
		if (!own && !field || e.matches("option, title, noscript") || e.closest(".hidden-text, .cards thead")) continue;
		if (!e.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
		const style = getComputedStyle(e);
		const rect = e.getBoundingClientRect();
		const drawn = e instanceof SVGElement;
		const size = parseFloat(style.fontSize);
		if (!e.disabled) contrast(e, drawn ? style.fill : style.color, size, Number(style.fontWeight));
		if (field && e.placeholder) contrast(e, getComputedStyle(e, "::placeholder").color, size, 400);
		if (field) continue;
		const moves = e.closest(".graph-scroll, pre"); // what may be wider than the window
		const clips = (at) => at !== document.body &&
			(getComputedStyle(at).overflowX === "hidden" || clips(at.parentElement));
		const leaves = rect.right > innerWidth + 1 || rect.left < -1;
		if (leaves && !moves && !clips(e)) fault("it leads out of the window", e);
		if (drawn) {
			if (e.textContent.includes("…") && !e.querySelector("title") && !e.closest(".node")) fault("it is cut", e);
			const box = e.closest(".node")?.querySelector(".box").getBBox();
			if (box && e.getBBox().x + e.getBBox().width > box.width - 4) fault("it does not fit its box", e);
			continue;
		}
		for (let at = e; at && at !== document.body; at = at.parentElement) {
			const clip = getComputedStyle(at);
			if (clip.display === "inline" || clip.overflowX === "visible" && clip.overflowY === "visible") continue;
			const rolls = /auto|scroll/.test(clip.overflowX);
			if (at.scrollWidth > at.clientWidth + 1 && !moves) {
				if (rolls) fault("it scrolls sideways", at);
				else if (!e.closest("[title]") && !at.closest("[title]")) fault("it is cut", e);
			}
			if (clip.overflowY === "hidden" && at.scrollHeight > at.clientHeight + 2 && !e.closest("[title]") &&
				!at.closest("[title]")) fault("it is cut below", e);
			if (rolls) break;
		}
	}
	return [...faults].join("\n");
})()`

// named are the roles that need a name: a screen reader has nothing else.
var named = map[string]bool{"button": true, "link": true, "textbox": true, "searchbox": true, "combobox": true,
	"checkbox": true, "img": true, "image": true, "dialog": true, "table": true, "region": true, "navigation": true,
	"group": false, "heading": true, "tab": true, "columnheader": true, "option": true, "DisclosureTriangle": true}

// inspect checks what everyone must be able to do with the page that is shown.
func (b *browser) inspect(where string) {
	b.t.Helper()
	wrong := eval[string](b, inspection)
	if wrong != "" { // it may have been between two frames
		b.until("two frames", `(window.frame_ ??= 0, requestAnimationFrame(() => window.frame_++), window.frame_ > 2)`)
		eval[bool](b, "delete window.frame_")
		wrong = eval[string](b, inspection)
	}
	if wrong != "" {
		lines := strings.Split(wrong, "\n")
		b.t.Errorf("%s:\n\t%s", where, strings.Join(lines[:min(len(lines), 12)], "\n\t"))
		b.shot("wrong-" + where)
	}
}

// checkNames asks the browser for what it would tell a screen reader.
func (b *browser) checkNames(where string) {
	b.t.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &s) // what is no text is no name
		}
		return strings.TrimSpace(s)
	}
	controls := 0
	for _, n := range tree.Nodes {
		if role := text(n.Role); !n.Ignored && named[role] {
			controls++
			if text(n.Name) == "" {
				b.t.Errorf("%s: a %s has no name (node %d)", where, role, n.BackendDOMNodeID)
			}
		}
	}
	if controls < 5 {
		b.t.Errorf("%s: only %d controls are in the accessibility tree", where, controls)
	}
}
