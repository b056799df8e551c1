package retail

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxID bounds an id, an e-mail address or a part of a name, in bytes; longer ones name nothing.
const maxID = 128

// UserKey returns the shard that holds a user's record.
func UserKey(id string) string { return shard("users", id) }

// OrderKey returns the shard that holds an order's record; a leading '#' of the id is not part of the name.
func OrderKey(id string) string { return shard("orders", strings.TrimPrefix(id, "#")) }

// EmailKey returns the index shard that lists the users with an e-mail address; case does not matter.
func EmailKey(email string) string { return shard("emails", strings.ToLower(email)) }

// NameZipKey returns the index shard that lists the users with a name and a zip code; case does not matter.
func NameZipKey(first, last, zip string) string {
	return shard("names", strings.ToLower(first), strings.ToLower(last), strings.ToLower(zip))
}

// shard joins segments to a scope of type shard. Each is escaped, so that no text of a customer becomes a
// separator or a wildcard.
func shard(segments ...string) string {
	escaped := make([]string, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return "shard:/" + strings.Join(escaped, "/")
}

// nameable says whether every part can be a segment of its own. An empty or a dotted one would name another,
// wider scope after canonicalisation, so tools answer "not found" to it without a read.
func nameable(parts ...string) bool {
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || len(p) > maxID || !utf8.ValidString(p) {
			return false
		}
		if strings.ContainsFunc(p, unicode.IsControl) {
			return false
		}
	}
	return true
}
