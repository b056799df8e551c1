package script

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// ofKind reads the keys that belong to one verb.
func (r *reader) ofKind(key, value string) (known bool, err error) {
	in := r.in
	switch {
	case in.Touch != nil && key == "bound":
		return true, number(value, &in.Touch.BoundTicks)
	case in.Seal != nil:
		return sealKey(in.Seal, key, value)
	case in.Abort != nil && key == "code":
		code, err := unquote(value)
		in.Abort.Code = sequencer.Code(code)
		return true, err
	case in.Abort != nil && key == "at":
		at, err := unquote(value)
		in.Abort.Scope = sequencer.Scope(at)
		return true, err
	case in.Abort != nil && key == "moved":
		return true, movedOf(in.Abort, value)
	case in.Abort != nil && key == "detail":
		in.Abort.Detail, err = unquote(value)
		return true, err
	case in.Settle != nil && key == "effect":
		return true, settledEffect(in.Settle, value)
	case in.Verdict != nil && key == "reason":
		in.Verdict.Reason, err = unquote(value)
		return true, err
	case in.Verdict != nil && key == "of":
		return true, hash(value, &in.Verdict.Footprint)
	case in.Verdict != nil && (key == word(true) || key == word(false)):
		return true, approvalOf(in.Verdict, key == word(true), value)
	case in.Join != nil && key == "id":
		in.Join.ID, err = unquote(value)
		return true, err
	case in.Join != nil && key == "logic":
		return true, number(value, &in.Join.Logic)
	case in.Select != nil && key == "group":
		in.Select.Group, err = unquote(value)
		return true, err
	case in.Select != nil && key == "winner":
		id, err := unquote(value)
		in.Select.Winner = sequencer.TxID(id)
		return true, err
	case in.Register != nil:
		return registerKey(in.Register, key, value)
	case in.Watermark != nil && key == "seq":
		return true, number(value, &in.Watermark.Seq)
	case in.Watermark != nil && key == "confirm":
		return true, number(value, &in.Watermark.Confirm)
	case in.Rules != nil:
		return rulesKey(in.Rules, key, value)
	case in.Tick != nil && key == "tick":
		return true, number(value, &in.Tick.N)
	case in.Tick != nil && key == "weight":
		return true, number(value, &in.Tick.Weight)
	}
	return false, nil
}

// movedOf reads who moved something and at which seq: writer@seq.
func movedOf(a *sequencer.Abort, value string) error {
	at := strings.LastIndexByte(value, '@')
	if at < 0 {
		return errors.New("write writer@seq")
	}
	writer, err := unquote(value[:at])
	a.Writer = sequencer.TxID(writer)
	return errors.Join(err, number(value[at+1:], &a.Seq))
}

func sealKey(s *sequencer.Seal, key, value string) (known bool, err error) {
	switch key {
	case "read":
		return true, readOf(s, value)
	case "effect":
		return true, effectOf(s, value)
	case "shard":
		return true, shardOf(s, value)
	case "pin":
		var parts []string
		if err := each(value, ';', func(piece string) error { return appendName(&parts, piece) }); err != nil {
			return true, err
		}
		if len(parts) != 3 {
			return true, errors.New("write server;name;signature")
		}
		s.Pins = append(s.Pins, sequencer.Pin{Server: parts[0], Name: parts[1], Signature: parts[2]})
		return true, nil
	case "from":
		return true, names(value, &s.ReadFrom)
	case "within":
		return true, number(value, &s.VerdictTicks)
	case "at":
		partition, offset, _ := strings.Cut(value, "/")
		s.At = &sequencer.Place{}
		return true, errors.Join(number(partition, &s.At.Partition), number(offset, &s.At.Offset))
	case "touched":
		if value == "none" {
			return true, nil
		}
		return true, each(value, ',', func(piece string) error {
			text, unknown := strings.CutSuffix(piece, "?")
			report := sequencer.TouchReport{Known: !unknown}
			err := number(text, &report.N)
			s.Touches = append(s.Touches, report)
			return err
		})
	}
	return false, nil
}

func appendName(to *[]string, piece string) error {
	s, err := unquote(piece)
	*to = append(*to, s)
	return err
}

// options cuts `head;key=value;word` and hands each option on.
func options(text string, do func(key, value string) error) (head string, err error) {
	list, err := pieces(text, ';')
	if err != nil || len(list) == 0 {
		return "", err
	}
	for _, option := range list[1:] {
		key, value := option, ""
		if !strings.HasPrefix(option, `"`) {
			key, value, _ = strings.Cut(option, "=")
		}
		if err := do(key, value); err != nil {
			return "", fmt.Errorf("%s: %w", option, err)
		}
	}
	return list[0], nil
}

func readOf(s *sequencer.Seal, value string) error {
	r := sequencer.Read{View: Now}
	version := true // the first option is the version, the second the writer
	head, err := options(value, func(key, _ string) error {
		if version {
			version = false
			return number(strings.TrimPrefix(key, "v"), &r.Version)
		}
		id, err := unquote(key)
		r.Writer = sequencer.TxID(id)
		return err
	})
	if err != nil {
		return err
	}
	if r.Scope, err = viewed(head, &r.View); err != nil {
		return err
	}
	s.Reads = append(s.Reads, r)
	return nil
}

// viewed reads `scope@view`.
func viewed(text string, view *sequencer.Seq) (sequencer.Scope, error) {
	list, err := pieces(text, '@')
	if err != nil || len(list) == 0 {
		return "", errors.Join(err, errors.New("the scope is missing"))
	}
	if len(list) > 1 {
		if err := number(list[1], view); err != nil {
			return "", err
		}
	}
	s, err := unquote(list[0])
	return sequencer.Scope(s), err
}

func effectOf(s *sequencer.Seal, value string) error {
	e := sequencer.Effect{Index: uint32(len(s.Effects))}
	known := 0 // 0: as the class has it
	head, err := options(value, func(key, value string) (err error) {
		switch key {
		case "index":
			return number(value, &e.Index)
		case "tool":
			e.Tool, err = unquote(value)
		case "key":
			e.Key, err = unquote(value)
		case "absent":
			e.Absent = true
		case "approve":
			e.Approve = true
		case "args":
			return argsOf(value, &e.Args)
		case "known":
			known = 1
		case "unknown":
			known = -1
		default:
			return errors.New("an effect has index, tool, key, known, unknown, absent, approve or args")
		}
		return err
	})
	if err != nil {
		return err
	}
	class, scopes, _ := strings.Cut(head, ":")
	if e.Class, err = classOf(class); err != nil {
		return err
	}
	e.Known = known > 0 || known == 0 && e.Class.Eager()
	if scopes != "" {
		err = names(scopes, &e.Scopes)
	}
	s.Effects = append(s.Effects, e)
	return err
}

func classOf(text string) (c sequencer.Class, err error) {
	for c = 0; c.String() != "unknown"; c++ {
		if c.String() == text {
			return c, nil
		}
	}
	return c, number(text, &c)
}

func shardOf(s *sequencer.Seal, value string) error {
	var w sequencer.ShardWrite
	head, err := options(value, func(key, value string) (err error) {
		switch key {
		case "text":
			var text string
			text, err = unquote(value)
			w.Content = []byte(text)
		case "type":
			w.Type, err = unquote(value)
		case "op":
			w.Op, err = opOf(value)
		case "removes":
			err = number(value, &w.Removes)
		case "absent":
			w.Absent = true
		case "ref":
			w.Ref, err = refOf(value)
		case "expect":
			version, view, viewed := strings.Cut(value, "@")
			w.Expect = &sequencer.Expect{View: Now}
			err = number(version, &w.Expect.Version)
			if viewed && err == nil {
				err = number(view, &w.Expect.View)
			}
		case "former":
			version, view, viewed := strings.Cut(value, "@")
			w.Former = &sequencer.Former{View: Now}
			err = number(version, &w.Former.Version)
			if viewed && err == nil {
				err = number(view, &w.Former.View)
			}
		default:
			return formerOf(w.Former, key, value)
		}
		return err
	})
	if err != nil {
		return err
	}
	text, err := unquote(head)
	w.Scope = sequencer.Scope(text)
	s.Shards = append(s.Shards, w)
	return err
}

func opOf(text string) (o sequencer.Op, err error) {
	for ; o.String() != "unknown"; o++ {
		if o.String() == text {
			return o, nil
		}
	}
	return o, number(text, &o)
}

// formerOf reads what stood in a shard, after former.
func formerOf(x *sequencer.Former, key, value string) (err error) {
	switch {
	case x == nil:
	case key == "was":
		var text string
		text, err = unquote(value)
		x.Content = []byte(text)
		return err
	case key == "was-type":
		x.Type, err = unquote(value)
		return err
	case key == "was-ref":
		x.Ref, err = refOf(value)
		return err
	case key == "was-in":
		return number(value, &x.Restored)
	}
	return errors.New("a shard write has text, type, ref, op, expect or former; after former was, was-type, was-ref or " +
		"was-in")
}

func refOf(text string) (*sequencer.Ref, error) {
	parts := strings.Split(text, "/")
	var r sequencer.Ref
	var chain error
	switch len(parts) {
	case 4:
	case 6:
		chain = errors.Join(number(parts[4], &r.Chunks), number(parts[5], &r.Last))
	default:
		return nil, errors.New("write partition/offset/size/sha256, and of a chain /events/last offset")
	}
	return &r, errors.Join(chain, number(parts[0], &r.Partition), number(parts[1], &r.Offset), number(parts[2], &r.Size),
		hash(parts[3], &r.SHA256))
}

func settledEffect(s *sequencer.Settle, value string) error {
	e := sequencer.Settled{Index: uint32(len(s.Effects))}
	head, err := options(value, func(key, value string) error {
		if key != "index" {
			return errors.New("a settled effect has an index only")
		}
		return number(value, &e.Index)
	})
	if err != nil {
		return err
	}
	result, scopes, _ := strings.Cut(head, ":")
	if e.Result, err = resultOf(result); err != nil {
		return err
	}
	if scopes != "" {
		err = names(scopes, &e.Scopes)
	}
	s.Effects = append(s.Effects, e)
	return err
}

func resultOf(text string) (v sequencer.Result, err error) {
	for v = 0; v.String() != "unknown"; v++ {
		if v.String() == text {
			return v, nil
		}
	}
	return v, number(text, &v)
}

func registerKey(g *sequencer.Register, key, value string) (known bool, err error) {
	switch key {
	case "server":
		g.Server, err = unquote(value)
		return true, err
	case "gen":
		return true, number(value, &g.Generation)
	case "tool":
		var parts []string
		if err := each(value, ';', func(piece string) error { return appendName(&parts, piece) }); err != nil {
			return true, err
		}
		if len(parts) != 2 {
			return true, errors.New("write name;signature")
		}
		g.Tools = append(g.Tools, sequencer.Tool{Name: parts[0], Signature: parts[1]})
		return true, nil
	}
	return false, nil
}

// rulesField is one number of the rules.
type rulesField struct {
	key string
	get func() uint64
	set func(text string) error
}

func field[T ~uint32 | ~uint64](key string, at *T) rulesField {
	return rulesField{key, func() uint64 { return uint64(*at) }, func(text string) error { return number(text, at) }}
}

func rulesFields(r *sequencer.Rules) []rulesField {
	return []rulesField{
		field("version", &r.Version), field("logic", &r.Logic), field("horizon", &r.HorizonSeqs),
		field("commits", &r.HorizonCommits), field("undo", &r.HorizonTicks), field("cap", &r.CapSeqs),
		field("lease", &r.LeaseTicks), field("deadline", &r.DeadlineTicks), field("bound", &r.BoundTicks),
		field("verdict", &r.VerdictTicks), field("open", &r.MaxOpen), field("scopes", &r.MaxScopes),
		field("bytes", &r.MaxBytes), field("inline", &r.MaxInline), field("content", &r.MaxContent),
		field("inlines", &r.MaxInlineTotal), field("kept", &r.MaxKept),
		field("sidecars", &r.MaxSidecars), field("approval", &r.ApprovalTicks),
	}
}

func rulesKey(r *sequencer.Rules, key, value string) (known bool, err error) {
	if key == "levels" {
		r.Levels, err = levelsOf(value)
		return true, err
	}
	for _, f := range rulesFields(r) {
		if f.key == key {
			return true, f.set(value)
		}
	}
	return false, nil
}
