package sbus

import "strings"

// A merge makes one content of two that were made from the same one, where they only add to it: region by region, a
// region being what stands below one header. It is an ordinary content then, and its commit expects the version that
// it was merged with.

// region is a header line (empty for what stands before the first one) and all below it up to the next.
type region struct{ header, body string }

// regionsOf cuts a content at its header lines, which begin with '#'. Not ok: two have the same header.
func regionsOf(content string) (out []region, ok bool) {
	seen := map[string]bool{}
	at := region{}
	enter := func() bool {
		if at.header == "" && at.body == "" {
			return true
		}
		out = append(out, at)
		was := seen[at.header]
		seen[at.header] = true
		return !was
	}
	for line := range strings.Lines(content) {
		if !strings.HasPrefix(line, "#") {
			at.body += line
			continue
		}
		if !enter() {
			return nil, false
		}
		at = region{header: strings.TrimRight(line, "\r\n")}
		at.body = line[len(at.header):]
	}
	return out, enter()
}

func bodyOf(list []region, header string) (string, bool) {
	for _, r := range list {
		if r.header == header {
			return r.body, true
		}
	}
	return "", false
}

// adds reports whether a content keeps all of another one: each of its regions is there, and goes on where it ended.
func adds(mine, base string) bool {
	has, ok := regionsOf(mine)
	had, same := regionsOf(base)
	if !ok || !same {
		return strings.HasPrefix(mine, base)
	}
	for _, r := range had {
		if body, there := bodyOf(has, r.header); !there || !goesOn(body, r.body) {
			return false
		}
	}
	return true
}

// goesOn reports whether a text begins with another one, apart from the line end that it had or had not.
func goesOn(text, begins string) bool {
	return strings.HasPrefix(text, strings.TrimRight(begins, "\r\n"))
}

// merge puts what mine has added to base behind what theirs has made of it. Not ok: mine does not only add, or both
// have changed a region and theirs did not only add to it.
func merge(base, mine, theirs string) (out string, ok bool) {
	if !adds(mine, base) {
		return "", false
	}
	b, ok1 := regionsOf(base)
	m, ok2 := regionsOf(mine)
	t, ok3 := regionsOf(theirs)
	if !ok1 || !ok2 || !ok3 { // of two equal headers it is unknown which is meant
		return "", false
	}
	for _, r := range m {
		if _, there := bodyOf(t, r.header); !there {
			if _, was := bodyOf(b, r.header); was {
				return "", false // theirs has taken the region away, and mine goes on with it
			}
			t = append(t, region{r.header, ""})
		}
	}
	var text strings.Builder
	for _, r := range t {
		was, _ := bodyOf(b, r.header)
		own, there := bodyOf(m, r.header)
		body := r.body
		switch {
		case !there || own == was || own == body:
		case body == was:
			body = own
		case goesOn(body, was):
			added := strings.TrimLeft(strings.TrimPrefix(own, strings.TrimRight(was, "\r\n")), "\r\n")
			body = ended(body) + added
		default:
			return "", false
		}
		if whole := text.String(); whole != "" && !strings.HasSuffix(whole, "\n") {
			text.WriteString("\n")
		}
		text.WriteString(r.header + body)
	}
	return text.String(), true
}

// ended is a text whose last line has its end.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
