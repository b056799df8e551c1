package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/hence-dev/hence/gate/policy/template"
)

// A spelling's base is a name as one would write it, and its rewrite another text for the same resource.

// base returns a random name for which a spelling has something to rewrite.
func base(rng *rand.Rand, spelling string) string {
	switch spelling {
	case spellMail:
		return word(rng) + "." + word(rng) + "@" + word(rng) + ".Example.com"
	case spellPath:
		return word(rng) + "/" + word(rng) + "/" + word(rng) + ".txt"
	case spellHost:
		return word(rng) + ".Example.com:8443"
	case spellURL:
		return "https://" + word(rng) + ".Example.com/" + word(rng) + "/" + word(rng)
	case spellUnicode:
		return word(rng) + string([]rune("éüñçåÅö")[rng.IntN(7)]) + word(rng)
	}
	return word(rng)
}

func word(rng *rand.Rand) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	out := make([]byte, 2+rng.IntN(6))
	for i := range out {
		out[i] = letters[rng.IntN(len(letters))]
	}
	return string(out) + fmt.Sprint(rng.IntN(100))
}

// rewrite returns another spelling of a name that base made.
func rewrite(rng *rand.Rand, spelling, name string) string {
	switch spelling {
	case spellCase:
		return swapCase(rng, name)
	case spellUnicode:
		if norm.NFC.IsNormalString(name) {
			return norm.NFD.String(name)
		}
		return norm.NFC.String(name)
	case spellMail:
		return rewriteMail(rng, name)
	case spellPath:
		return rewritePath(rng, name)
	case spellHost:
		return rewriteHost(rng, name)
	case spellURL:
		scheme, rest, _ := strings.Cut(name, "://")
		host, path, _ := strings.Cut(rest, "/")
		if rng.IntN(3) == 0 {
			host += ":443"
		}
		return swapCase(rng, scheme) + "://" + rewriteHost(rng, host) + "/" + rewriteURLPath(rng, path)
	}
	return name
}

// swapCase changes the case of some letters, of one at least where there is one.
func swapCase(rng *rand.Rand, text string) string {
	out := []rune(text)
	swap := func(i int) {
		if unicode.IsUpper(out[i]) {
			out[i] = unicode.ToLower(out[i])
		} else if unicode.ToLower(unicode.ToUpper(out[i])) == out[i] {
			out[i] = unicode.ToUpper(out[i])
		}
	}
	for i := range out {
		if rng.IntN(2) == 0 {
			swap(i)
		}
	}
	if string(out) == text && len(out) > 0 {
		swap(0)
	}
	return string(out)
}

func rewriteMail(rng *rand.Rand, name string) string {
	local, host, _ := strings.Cut(name, "@")
	switch rng.IntN(4) {
	case 0:
		return local + "+" + word(rng) + "@" + host
	case 1:
		return "Some One <" + name + ">"
	case 2:
		return swapCase(rng, name)
	}
	return " " + swapCase(rng, local) + "+x@" + swapCase(rng, host) + " "
}

func rewritePath(rng *rand.Rand, name string) string {
	parts := strings.Split(name, "/")
	i := rng.IntN(len(parts))
	switch rng.IntN(5) {
	case 0:
		parts[i] = "./" + parts[i]
	case 1:
		parts[i] = word(rng) + "/../" + parts[i]
	case 2:
		parts[i] = "/" + parts[i] // doubled, or leading
	case 3:
		parts[len(parts)-1] += "/"
	case 4:
		parts[i] += "/."
	}
	return strings.Join(parts, "/")
}

func rewriteHost(rng *rand.Rand, name string) string {
	host, port, found := strings.Cut(name, ":")
	if rng.IntN(2) == 0 {
		host += "."
	}
	host = swapCase(rng, host)
	if found {
		return host + ":" + port
	}
	return host
}

func rewriteURLPath(rng *rand.Rand, path string) string {
	if path == "" {
		return path
	}
	switch rng.IntN(4) {
	case 0:
		return path + "/"
	case 1:
		return "./" + path
	case 2:
		return fmt.Sprintf("%%%02x", path[0]) + path[1:] + "?q=1"
	}
	return path + "#part"
}

// filterFor is the filter that makes a spelling harmless.
func filterFor(ways []string) template.Filter {
	filters := map[string]template.Filter{
		spellCase: template.Lower, spellUnicode: template.NFC, spellMail: template.MailFilter,
		spellPath: template.PathFilter, spellHost: template.HostFilter, spellURL: template.URLFilter,
	}
	out := template.Filter("")
	for _, way := range ways {
		switch f := filters[way]; {
		case out == "" || out == f:
			out = f
		default:
			out = template.Fold
		}
	}
	return out
}

// hostile are values that try to change the shape of the scope they become part of.
func hostile() []string {
	return []string{
		"..", ".", "", "*", "**", "/", "//", "a/b", "a/../b", "../..", "%2e%2e", "%2F", "a%2Fb", "%", "%zz", "a*b", "a:/b",
		"shard:/x", "\x00", "a\nb", " ", "\u202e", "é", "e\u0301", "{x}", "}}", "a?b#c", "~", strings.Repeat("x", 300),
		strings.Repeat("a/", 40),
	}
}
