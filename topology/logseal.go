package topology

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// LogSeal is a record of hence.seals: what one group of processors has published of a workspace, so that an audit can
// tell later whether it is still there as it was. The header HeaderSignature signs the record.
type LogSeal struct {
	Workspace string
	Replica   string // which group: a or b
	Log       string // id of the log, as Kafka gave it to hence.intents
	From, To  sequencer.Seq
	// Former is the hash (HashLogSeal) of the group's former seal of the workspace; zero: a chain begins, since the
	// owner found no seal with its key. From may be behind the former one's To+1: an owner went before it had sealed, and
	// of those between only Chain speaks.
	Former sequencer.Hash
	// Chain is the chain hash of decision To. Invariant: it covers the canonical form of every decision up to To.
	Chain sequencer.Hash
	// Digests are the SHA-256 of the value of each decision's record, From first.
	Digests  []sequencer.Hash
	Key      sequencer.Hash // which key signed it: LogSealKey
	AtMs     int64          // the writer's clock; for people
	Instance string         // the writer; for people
}

const logSealFields = 11

// MaxLogSeal is the most decisions that one seal covers.
const MaxLogSeal = 4096

// digestBytes is what a hash of a list takes.
const digestBytes = 34

func walkLogSeal(w *walker, s *LogSeal) {
	outer := w.open(logSealFields, logSealFields)
	text(w, &s.Workspace)
	text(w, &s.Replica)
	text(w, &s.Log)
	number(w, &s.From)
	number(w, &s.To)
	w.hash(&s.Former)
	w.hash(&s.Chain)
	shortList(w, &s.Digests, MaxLogSeal, 1, func(w *walker, h *sequencer.Hash) { w.hash(h) })
	w.hash(&s.Key)
	signed(w, &s.AtMs)
	text(w, &s.Instance)
	w.close(outer)
	if w.err == nil && (s.From < 1 || s.To < s.From || s.To-s.From != sequencer.Seq(len(s.Digests)-1)) {
		// A reader would look for digests that are not there.
		w.malformed("a seal of %d to %d has %d digests", s.From, s.To, len(s.Digests))
	}
}

// EncodeLogSeal writes a record of hence.seals.
func EncodeLogSeal(v *LogSeal) ([]byte, error) {
	return inputCodec("log seal", 256+digestBytes*len(v.Digests), walkLogSeal).encode(v)
}

// DecodeLogSeal reads a record of hence.seals.
func DecodeLogSeal(b []byte) (*LogSeal, error) {
	return inputCodec("log seal", 0, walkLogSeal).decode(b)
}

// logSealPurpose stands before the bytes that are signed: a signature of the key on anything else is none on a seal.
const logSealPurpose = "hence.seals/1\n"

// HashLogSeal is the hash by which the next seal of a group names this record's value.
func HashLogSeal(value []byte) sequencer.Hash { return sha256.Sum256(value) }

// SignLogSeal is the value of HeaderSignature for a record's value.
func SignLogSeal(key ed25519.PrivateKey, value []byte) []byte {
	return ed25519.Sign(key, append([]byte(logSealPurpose), value...))
}

// SignedLogSeal reports whether a signature on a record's value is the key's.
func SignedLogSeal(key ed25519.PublicKey, value, signature []byte) bool {
	return ed25519.Verify(key, append([]byte(logSealPurpose), value...), signature)
}

// LogSealKey names a key: the SHA-256 of its SubjectPublicKeyInfo, as `openssl pkey -pubin -outform DER | sha256sum`
// prints it.
func LogSealKey(key ed25519.PublicKey) sequencer.Hash {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(fmt.Sprintf("topology: an Ed25519 key cannot be written: %v", err))
	}
	return sha256.Sum256(der)
}
