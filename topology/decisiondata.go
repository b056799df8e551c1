package topology

import (
	"encoding/base64"
	"encoding/hex"

	"github.com/hence-dev/hence/sequencer"
)

// This file reads the data of a decision; cloudevent.go writes it.

// hash takes a hash in hexadecimal; an empty string is the zero hash.
func (r *jsonReader) hash() (h sequencer.Hash) {
	if r.null() {
		return h
	}
	text := r.raw()
	if len(text) == 0 {
		return h
	}
	if len(text) != hex.EncodedLen(len(h)) {
		r.malformed("a hash of %d digits", len(text))
		return h
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		r.malformed("a hash: %v", err)
	}
	return h
}

// nameOf takes the name of an enumeration's value.
func nameOf[T named](r *jsonReader) T {
	v, err := valueFor[T](r.text())
	if err != nil {
		r.malformed("%v", err)
	}
	return v
}

// listOf takes a list of values; an empty one is nil.
func listOf[T any](r *jsonReader, one func(*jsonReader) T) (list []T) {
	r.list(func() { list = append(list, one(r)) })
	return list
}

func wordOf[T ~string](r *jsonReader) T { return T(r.text()) }

func readDecision(r *jsonReader, o *sequencer.Outcome) {
	r.object(func(name string) {
		if !readHead(r, o, name) && !readReason(r, o, name) && !readMoves(r, o, name) && !readRest(r, o, name) {
			r.skip()
		}
	})
}

// readHead takes a member that says which decision it is.
func readHead(r *jsonReader, o *sequencer.Outcome, name string) bool {
	switch name {
	case "workspace":
		o.Workspace = r.text()
	case "seq":
		o.Seq = naturalOf[sequencer.Seq](r)
	case "kind":
		o.Kind = nameOf[sequencer.OutcomeKind](r)
	case "tx":
		o.Tx = wordOf[sequencer.TxID](r)
	case "agent":
		o.Agent = r.text()
	case "intent":
		o.Intent = r.text()
	case "incarnation":
		o.Incarnation = naturalOf[sequencer.Seq](r)
	case "mode":
		o.Mode = nameOf[sequencer.Mode](r)
	case "epoch":
		o.Epoch = naturalOf[sequencer.Epoch](r)
	case "offset":
		o.Offset = integerOf[int64](r)
	case "rules_version":
		o.RulesVersion = naturalOf[uint32](r)
	case "tick":
		o.Time = naturalOf[sequencer.Tick](r)
	case "floor":
		o.Floor = naturalOf[sequencer.Seq](r)
	case "chain":
		o.Chain = r.hash()
	default:
		return false
	}
	return true
}

// readReason takes a member that says why.
func readReason(r *jsonReader, o *sequencer.Outcome, name string) bool {
	switch name {
	case "code":
		o.Code = wordOf[sequencer.Code](r)
	case "detail":
		o.Detail = r.text()
	case "scope":
		o.Scope = wordOf[sequencer.Scope](r)
	case "moved":
		o.Moved = readWriter(r)
	case "blocked_by":
		o.BlockedBy = listOf(r, readBlocker)
	case "retryable":
		o.Retryable = r.truth()
	case "would":
		o.Would = wordOf[sequencer.Code](r)
	default:
		return false
	}
	return true
}

// readMoves takes a member that says what moved.
func readMoves(r *jsonReader, o *sequencer.Outcome, name string) bool {
	switch name {
	case "added":
		o.Added = listOf(r, readHold)
	case "ended":
		o.Ended = listOf(r, readHold)
	case "may":
		o.May = listOf(r, readWant)
	case "writes":
		o.Writes = listOf(r, readWrite)
	case "shards":
		o.Shards = listOf(r, readShard)
	case "rests_on":
		o.RestsOn = listOf(r, wordOf[sequencer.TxID])
	case "residue":
		o.Residue = listOf(r, wordOf[sequencer.TxID])
	default:
		return false
	}
	return true
}

// readRest takes a member that only some kinds have.
func readRest(r *jsonReader, o *sequencer.Outcome, name string) bool {
	switch name {
	case "footprint":
		o.Footprint = r.hash()
	case "at":
		o.At = readOptional(r, readPlace)
	case "group":
		o.Group = r.text()
	case "winner":
		o.Winner = wordOf[sequencer.TxID](r)
	case "server":
		o.Server = r.text()
	case "catalogue":
		o.Catalogue = r.hash()
	case "final":
		o.Final = r.truth()
	case "rules":
		o.Rules = readOptional(r, readRules)
	case "state_hash":
		o.StateHash = readOptional(r, (*jsonReader).hash)
	default:
		return false
	}
	return true
}

func readOptional[T any](r *jsonReader, one func(*jsonReader) T) *T {
	if r.null() {
		return nil
	}
	v := one(r)
	return &v
}

func readWriter(r *jsonReader) (v sequencer.Writer) {
	r.object(func(name string) {
		switch name {
		case "seq":
			v.Seq = naturalOf[sequencer.Seq](r)
		case "tx":
			v.Tx = wordOf[sequencer.TxID](r)
		case "residue":
			v.Residue = r.truth()
		default:
			r.skip()
		}
	})
	return v
}

func readBlocker(r *jsonReader) (b sequencer.Blocker) {
	r.object(func(name string) {
		switch name {
		case "tx":
			b.Tx = wordOf[sequencer.TxID](r)
		case "scope":
			b.Scope = wordOf[sequencer.Scope](r)
		case "why":
			b.Why = r.text()
		default:
			r.skip()
		}
	})
	return b
}

func readHold(r *jsonReader) (h sequencer.Hold) {
	r.object(func(name string) {
		switch name {
		case "scope":
			h.Scope = wordOf[sequencer.Scope](r)
		case "kind":
			h.Kind = nameOf[sequencer.HoldKind](r)
		case "access":
			h.Access = nameOf[sequencer.Access](r)
		default:
			r.skip()
		}
	})
	return h
}

func readWant(r *jsonReader) sequencer.Want {
	h := readHold(r)
	return sequencer.Want{Scope: h.Scope, Access: h.Access}
}

func readWrite(r *jsonReader) (v sequencer.Write) {
	r.object(func(name string) {
		switch name {
		case "scope":
			v.Scope = wordOf[sequencer.Scope](r)
		case "writer":
			v.Writer = readWriter(r)
		case "former":
			v.Former = readWriter(r)
		default:
			r.skip()
		}
	})
	return v
}

func readPlace(r *jsonReader) (p sequencer.Place) {
	r.object(func(name string) {
		switch name {
		case "partition":
			p.Partition = integerOf[int32](r)
		case "offset":
			p.Offset = integerOf[int64](r)
		default:
			r.skip()
		}
	})
	return p
}

func readRef(r *jsonReader) (v sequencer.Ref) {
	r.object(func(name string) {
		switch name {
		case "partition":
			v.Partition = integerOf[int32](r)
		case "offset":
			v.Offset = integerOf[int64](r)
		case "size_bytes":
			v.Size = integerOf[int64](r)
		case "sha256":
			v.SHA256 = r.hash()
		default:
			r.skip()
		}
	})
	return v
}

func readExpect(r *jsonReader) (e sequencer.Expect) {
	r.object(func(name string) {
		switch name {
		case "version":
			e.Version = naturalOf[sequencer.Seq](r)
		case "view":
			e.View = naturalOf[sequencer.Seq](r)
		default:
			r.skip()
		}
	})
	return e
}

func readShard(r *jsonReader) (s sequencer.ShardWrite) {
	r.object(func(name string) {
		switch name {
		case "scope":
			s.Scope = wordOf[sequencer.Scope](r)
		case "media_type":
			s.Type = r.text()
		case "content":
			s.Content = bytesOrNil(r.text())
		case "content_base64":
			b, err := base64.StdEncoding.DecodeString(r.text())
			if err != nil {
				r.malformed("content_base64: %v", err)
			}
			s.Content = bytesOrNil(string(b))
		case "ref":
			s.Ref = readOptional(r, readRef)
		case "expect":
			s.Expect = readOptional(r, readExpect)
		default:
			r.skip()
		}
	})
	return s
}

func bytesOrNil(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}
