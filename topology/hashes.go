package topology

import "github.com/hence-dev/hence/sequencer"

// StateHash is a record of hence.hashes: which state one replica of the processors has come to. Those of two replicas
// at one seq of one log are equal, or one of them computes wrongly.
type StateHash struct {
	Workspace string
	Seq       sequencer.Seq // of the last outcome in the state
	Replica   string        // a or b
	Log       string        // id of the log, as Kafka gave it to hence.intents
	Offset    int64         // of the last record in the state
	Hash      sequencer.Hash
	AtMs      int64  // the writer's clock; for people
	Instance  string // the writer; for people
	Every     uint32 // how many seqs the writer goes on between two records; zero: an older one, which does not say
}

const stateHashFields = 8

func walkStateHash(w *walker, h *StateHash) {
	every := w.decoding || h.Every != 0
	outer := w.open(optional(stateHashFields, every), stateHashFields)
	text(w, &h.Workspace)
	number(w, &h.Seq)
	text(w, &h.Replica)
	text(w, &h.Log)
	signed(w, &h.Offset)
	w.hash(&h.Hash)
	signed(w, &h.AtMs)
	text(w, &h.Instance)
	if every {
		number(w, &h.Every)
	}
	w.close(outer)
}

// EncodeStateHash writes a record of hence.hashes.
func EncodeStateHash(v *StateHash) ([]byte, error) {
	return inputCodec("state hash", 192, walkStateHash).encode(v)
}

// DecodeStateHash reads a record of hence.hashes.
func DecodeStateHash(b []byte) (*StateHash, error) {
	return inputCodec("state hash", 0, walkStateHash).decode(b)
}
