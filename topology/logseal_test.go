package topology

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

func sampleLogSeal() *LogSeal {
	return &LogSeal{Workspace: "default", Replica: "b", Log: "q0VnK2kqSFO0bq1mJ2dVCw", From: 257, To: 259,
		Former: sum("former"), Chain: sum("chain"), Digests: []sequencer.Hash{sum("1"), sum("2"), sum("3")},
		Key: sum("key"), AtMs: sampleTime.UnixMilli(), Instance: "streams-b1"}
}

// sampleFirstLogSeal begins a chain.
func sampleFirstLogSeal() *LogSeal {
	s := sampleLogSeal()
	s.From, s.To, s.Former, s.Digests = 1, 1, sequencer.Hash{}, s.Digests[:1]
	return s
}

// TestLogSealCounts holds that a seal has one digest for each decision: a reader would look for others in vain.
func TestLogSealCounts(t *testing.T) {
	for name, spoil := range map[string]func(*LogSeal){
		"one digest less": func(s *LogSeal) { s.Digests = s.Digests[1:] },
		"one more":        func(s *LogSeal) { s.Digests = append(s.Digests, sum("4")) },
		"none":            func(s *LogSeal) { s.From, s.To, s.Digests = 5, 4, nil },
		"seq 0":           func(s *LogSeal) { s.From = 0; s.To = 2 },
		"too many":        func(s *LogSeal) { s.Digests = make([]sequencer.Hash, MaxLogSeal+1); s.To = s.From + MaxLogSeal },
	} {
		s := sampleLogSeal()
		spoil(s)
		if _, err := EncodeLogSeal(s); err == nil {
			t.Errorf("%s: it is written", name)
		}
	}
	b, err := EncodeLogSeal(sampleLogSeal())
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte{0xcd, 1, 3}, []byte{0xcd, 1, 4}, 1) // the seq 259
	if _, err := DecodeLogSeal(b); !errors.Is(err, ErrMalformed) {
		t.Errorf("a seal up to 260 with digests up to 259 is read: %v", err)
	}
}

// TestLogSealSignature holds that only the key's own signature, on these bytes and for this purpose, counts.
func TestLogSealSignature(t *testing.T) {
	key, other := ed25519.NewKeyFromSeed(make([]byte, 32)), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	value, public := []byte("a record"), key.Public().(ed25519.PublicKey)
	if !SignedLogSeal(public, value, SignLogSeal(key, value)) {
		t.Error("its own signature does not hold")
	}
	for name, holds := range map[string]bool{
		"of another key":       SignedLogSeal(public, value, SignLogSeal(other, value)),
		"on another record":    SignedLogSeal(public, []byte("a recorb"), SignLogSeal(key, value)),
		"for another purpose":  SignedLogSeal(public, value, ed25519.Sign(key, value)),
		"that is not there":    SignedLogSeal(public, value, nil),
		"of a key, as its own": LogSealKey(public) == LogSealKey(other.Public().(ed25519.PublicKey)),
	} {
		if holds {
			t.Errorf("a signature %s holds", name)
		}
	}
}
