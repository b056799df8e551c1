package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName is how long the names of tools may be for the models that call them, in bytes.
const MaxName = 64

// Name is the name of a server's tool beside the tools of others: server__tool. What models do not take in a name
// becomes '_', and one that is too long, or was changed, ends in a hash of the whole, so that it stays one tool's.
func Name(server, tool string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, tool)
	name := server + "__" + plain
	if plain == tool && len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	return name[:min(len(name), MaxName-9)] + "_" + hex.EncodeToString(sum[:4])
}
