package template

import (
	"errors"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Filter gives a value one spelling, so that two names of one thing give one scope.
type Filter string

// The filters.
const (
	Lower Filter = "lower" // lower case
	Fold  Filter = "fold"  // NFKC and case folding: for names that are compared without case
	NFC   Filter = "nfc"   // NFC: for names that are compared by what they show
	// MailFilter is for an address: display name, tag after a plus and case are dropped.
	MailFilter Filter = "mail"
	// PathFilter is for a path: each of its names becomes a segment; dots are resolved and may not climb.
	PathFilter Filter = "path"
	HostFilter Filter = "host" // the host and port of a URL or of host:port
	URLFilter  Filter = "url"  // host and path of a URL, each name a segment; scheme, query and fragment are dropped
)

// Filters returns all filters in the order in which they are documented.
func Filters() []Filter {
	return []Filter{Lower, Fold, NFC, MailFilter, PathFilter, HostFilter, URLFilter}
}

func filterNames() string {
	var names []string
	for _, f := range Filters() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

func (f Filter) known() bool {
	for _, k := range Filters() {
		if f == k {
			return true
		}
	}
	return false
}

// apply returns the pieces that a value becomes; only paths and URLs become more than one, or none at all.
func (f Filter) apply(text string) ([]string, error) {
	switch f {
	case Lower:
		return []string{strings.ToLower(text)}, nil
	case Fold:
		return []string{fold(text)}, nil
	case NFC:
		return []string{norm.NFC.String(text)}, nil
	case MailFilter:
		address, err := mailbox(text)
		return []string{address}, err
	case PathFilter:
		return pathNames(text)
	case HostFilter:
		host, _, err := splitURL(text)
		return []string{host}, err
	case URLFilter:
		host, path, err := splitURL(text)
		if err != nil {
			return nil, err
		}
		names, err := pathNames(path)
		return append([]string{host}, names...), err
	}
	return []string{text}, nil
}

// fold normalises before and after: folding can make a text that is not normal any more.
func fold(text string) string {
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text)))
}

// mailbox drops what does not choose the mailbox on common servers. Where a server tells case or tags apart the scope
// is too broad, which is safe.
func mailbox(text string) (string, error) {
	a, err := mail.ParseAddress(strings.TrimSpace(text))
	if err != nil || Quoted(a) {
		return "", errors.New("no single mail address: write name@host")
	}
	at := strings.LastIndexByte(a.Address, '@')
	local, host := fold(a.Address[:at]), strings.TrimSuffix(fold(a.Address[at+1:]), ".")
	if plain, _, tagged := strings.Cut(local, "+"); tagged && plain != "" {
		local = plain
	}
	return local + "@" + host, nil
}

// Quoted reports whether a mailbox's name needs quotes. Without them a server may take it for a route, and deliver to
// another mailbox than the scope names.
func Quoted(a *mail.Address) bool {
	return (&mail.Address{Address: a.Address}).String() != "<"+a.Address+">"
}

func pathNames(text string) ([]string, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, errors.New("a path with a zero byte names nothing")
	}
	var names []string
	for name := range strings.SplitSeq(text, "/") {
		switch name {
		case "", ".":
		case "..":
			if len(names) == 0 {
				return nil, errors.New("'..' climbs out: write the path without it")
			}
			names = names[:len(names)-1]
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

func splitURL(text string) (host, path string, err error) {
	full := strings.TrimSpace(text)
	if !strings.Contains(full, "://") {
		full = "//" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Hostname() == "" {
		return "", "", errors.New("no URL with a host: write https://host/path or host:port")
	}
	host = strings.TrimSuffix(fold(u.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String() // one address has several spellings
	}
	port := u.Port()
	scheme := strings.ToLower(u.Scheme)
	if port != "" && !(scheme == "http" && port == "80" || scheme == "https" && port == "443") {
		host = net.JoinHostPort(host, strings.TrimLeft(port, "0"))
	}
	return host, u.Path, nil
}
