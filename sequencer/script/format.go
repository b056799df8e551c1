package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
)

// line collects the tokens of one line.
type line []string

func (l *line) word(w string)                  { *l = append(*l, w) }
func (l *line) add(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }
func (l *line) num(key string, v uint64)       { l.add("%s=%d", key, v) }
func (l *line) text(key, v string)             { l.add("%s=%s", key, name(v)) }
func (l *line) flag(w string, v bool)          { l.when(v, w) }
func (l *line) when(v bool, token string)      { l.whenf(v, "%s", token) }
func (l *line) whenf(v bool, f string, args ...any) {
	if v {
		l.add(f, args...)
	}
}

// Format writes an intent as one line.
func Format(in *sequencer.Intent) string {
	var l line
	if in.Tx != "" || !alone(in.Kind) {
		l.word(name(string(in.Tx)))
	}
	l.word(verbOf(in.Kind))
	if in.Agent != "" || !alone(in.Kind) {
		l.word(name(in.Agent))
	}
	l.whenf(in.Incarnation != 0 || !alone(in.Kind), "inc=%d", in.Incarnation)
	l.whenf(in.N != 0 || !alone(in.Kind), "n=%d", in.N)
	l.whenf(in.Base != 0 || !alone(in.Kind), "base=%d", in.Base)
	l.whenf(in.Signer != "", "signer=%s", name(in.Signer))
	l.begin(in)
	l.payload(in)
	return strings.Join(l, " ")
}

// alone reports whether an intent of the kind concerns no single transaction.
func alone(k sequencer.IntentKind) bool {
	switch k {
	case sequencer.IntentJoin, sequencer.IntentSelect, sequencer.IntentRegister, sequencer.IntentUnregister,
		sequencer.IntentWatermark, sequencer.IntentRules, sequencer.IntentTick:
		return true
	}
	return false
}

func (l *line) begin(in *sequencer.Intent) {
	b := in.Begin
	if b == nil {
		return
	}
	l.flag("begin", in.Kind != sequencer.IntentBegin)
	l.whenf(b.Mode != 0, "mode=%s", mode(b.Mode))
	l.flag("observe", b.Observe)
	if b.Levels != nil {
		l.add("levels=%s", levels(*b.Levels))
	}
	l.whenf(b.DeadlineTicks != 0, "deadline=%d", b.DeadlineTicks)
	l.whenf(b.Group != "", "group=%s", name(b.Group))
	l.whenf(b.Predecessor != "", "after=%s", name(string(b.Predecessor)))
	l.whenf(len(b.May) > 0, "may=%s", join(b.May, want))
	l.whenf(b.Session != "", "session=%s", name(b.Session))
}

// payload writes the part that the kind names; where it is missing, the word bare.
func (l *line) payload(in *sequencer.Intent) {
	missing := false
	switch in.Kind {
	case sequencer.IntentBegin:
		missing = in.Begin == nil
	case sequencer.IntentTouch:
		missing = l.touch(in.Touch)
	case sequencer.IntentSeal:
		missing = l.seal(in.Seal)
	case sequencer.IntentAbort:
		missing = l.abort(in.Abort)
	case sequencer.IntentSettle:
		missing = l.settle(in.Settle)
	case sequencer.IntentVerdict:
		missing = l.verdict(in.Verdict)
	case sequencer.IntentJoin:
		if missing = in.Join == nil; !missing {
			l.text("id", in.Join.ID)
			l.whenf(in.Join.Logic != 0, "logic=%d", in.Join.Logic)
		}
	case sequencer.IntentSelect:
		if missing = in.Select == nil; !missing {
			l.text("group", in.Select.Group)
			l.text("winner", string(in.Select.Winner))
		}
	case sequencer.IntentRegister, sequencer.IntentUnregister:
		missing = l.register(in.Register)
	case sequencer.IntentWatermark:
		if missing = in.Watermark == nil; !missing {
			l.num("seq", uint64(in.Watermark.Seq))
			l.whenf(in.Watermark.Confirm != 0, "confirm=%d", in.Watermark.Confirm)
		}
	case sequencer.IntentRules:
		missing = l.rules(in.Rules)
	case sequencer.IntentTick:
		if missing = in.Tick == nil; !missing {
			l.num("tick", in.Tick.N)
			l.num("weight", uint64(in.Tick.Weight))
		}
	}
	l.flag("bare", missing)
}

func (l *line) touch(t *sequencer.Touch) (missing bool) {
	if t == nil {
		return true
	}
	for _, w := range t.Wants {
		l.word(want(w))
	}
	l.whenf(t.BoundTicks != 0, "bound=%d", t.BoundTicks)
	return false
}

func (l *line) seal(s *sequencer.Seal) (missing bool) {
	if s == nil {
		return true
	}
	for _, r := range s.Reads {
		l.add("read=%s", read(r))
	}
	for i, e := range s.Effects {
		l.add("effect=%s", effect(i, e))
	}
	for _, w := range s.Shards {
		l.add("shard=%s", shard(w))
	}
	for _, p := range s.Pins {
		l.add("pin=%s;%s;%s", name(p.Server), name(p.Name), name(p.Signature))
	}
	l.whenf(len(s.ReadFrom) > 0, "from=%s", join(s.ReadFrom, txName))
	l.flag("hook", s.Hook)
	l.whenf(s.VerdictTicks != 0, "within=%d", s.VerdictTicks)
	if s.At != nil {
		l.add("at=%d/%d", s.At.Partition, s.At.Offset)
	}
	touched := "none"
	if len(s.Touches) > 0 {
		touched = join(s.Touches, func(r sequencer.TouchReport) string {
			return strconv.FormatUint(uint64(r.N), 10) + mark(!r.Known, "?")
		})
	}
	l.add("touched=%s", touched)
	return false
}

func (l *line) abort(a *sequencer.Abort) (missing bool) {
	if a == nil {
		return true
	}
	l.whenf(a.Code != "", "code=%s", name(string(a.Code)))
	l.whenf(a.Detail != "", "detail=%s", name(a.Detail))
	l.whenf(a.Scope != "", "at=%s", scope(a.Scope))
	l.whenf(a.Seq != 0 || a.Writer != "", "moved=%s@%d", name(string(a.Writer)), a.Seq)
	return false
}

func (l *line) settle(s *sequencer.Settle) (missing bool) {
	if s == nil {
		return true
	}
	for i, e := range s.Effects {
		result := e.Result.String()
		if e.Result > sequencer.ResultPartial {
			result = strconv.Itoa(int(e.Result))
		}
		l.add("effect=%s:%s%s", result, join(e.Scopes, scope), indexed(i, e.Index))
	}
	l.flag("none-else", s.NoneElse)
	return false
}

func (l *line) verdict(v *sequencer.Verdict) (missing bool) {
	if v == nil {
		return true
	}
	l.flag("yes", v.Yes)
	l.flag("no", !v.Yes && !v.Unavailable)
	l.flag("unavailable", v.Unavailable)
	l.whenf(v.Reason != "", "reason=%s", name(v.Reason))
	for _, a := range v.Approvals {
		l.word(approval(a))
	}
	l.add("of=%x", v.Footprint)
	return false
}

func (l *line) register(r *sequencer.Register) (missing bool) {
	if r == nil {
		return true
	}
	l.text("server", r.Server)
	l.num("gen", r.Generation)
	for _, t := range r.Tools {
		l.add("tool=%s;%s", name(t.Name), name(t.Signature))
	}
	return false
}

func (l *line) rules(r *sequencer.Rules) (missing bool) {
	if r == nil {
		return true
	}
	l.flag("observed", r.Observe)
	l.add("levels=%s", levels(r.Levels))
	for _, field := range rulesFields(r) {
		l.num(field.key, field.get())
	}
	return false
}

func read(r sequencer.Read) string {
	at := ""
	if r.View != Now {
		at = fmt.Sprintf("@%d", r.View)
	}
	out := scope(r.Scope) + at
	if r.Version != 0 || r.Writer != "" {
		out += fmt.Sprintf(";v%d;%s", r.Version, name(string(r.Writer)))
	}
	return out
}

func effect(i int, e sequencer.Effect) string {
	class := e.Class.String()
	if class == "unknown" {
		class = strconv.Itoa(int(e.Class))
	}
	out := class + ":" + join(e.Scopes, scope) + indexed(i, e.Index)
	if e.Tool != "" {
		out += ";tool=" + name(e.Tool)
	}
	if e.Key != "" {
		out += ";key=" + name(e.Key)
	}
	if e.Known != e.Class.Eager() {
		out += ";" + mark(e.Known, "known") + mark(!e.Known, "unknown")
	}
	return out + mark(e.Absent, ";absent") + mark(e.Approve, ";approve") + args(e.Args)
}

func shard(w sequencer.ShardWrite) string {
	out := scope(w.Scope)
	if w.Content != nil {
		out += ";text=" + strconv.Quote(string(w.Content))
	}
	if w.Type != "" {
		out += ";type=" + name(w.Type)
	}
	if w.Ref != nil {
		out += ";ref=" + ref(w.Ref)
	}
	if x := w.Expect; x != nil {
		out += fmt.Sprintf(";expect=%d", x.Version) + at(x.View)
	}
	if x := w.Former; x != nil {
		out += fmt.Sprintf(";former=%d", x.Version) + at(x.View)
		if x.Content != nil {
			out += ";was=" + strconv.Quote(string(x.Content))
		}
		if x.Type != "" {
			out += ";was-type=" + name(x.Type)
		}
		if x.Ref != nil {
			out += ";was-ref=" + ref(x.Ref)
		}
		if x.Restored != 0 {
			out += fmt.Sprintf(";was-in=%d", x.Restored)
		}
	}
	if w.Restored != 0 {
		out += fmt.Sprintf(";in=%d", w.Restored)
	}
	if w.Op != sequencer.OpSet {
		out += ";op=" + op(w.Op)
	}
	out += mark(w.Absent, ";absent")
	if w.Removes != 0 {
		out += fmt.Sprintf(";removes=%d", w.Removes)
	}
	return out
}

func op(o sequencer.Op) string {
	if s := o.String(); s != "unknown" {
		return s
	}
	return strconv.Itoa(int(o))
}

func ref(r *sequencer.Ref) string {
	out := fmt.Sprintf("%d/%d/%d/%x", r.Partition, r.Offset, r.Size, r.SHA256)
	return out + mark(r.Chunks != 0 || r.Last != 0, fmt.Sprintf("/%d/%d", r.Chunks, r.Last))
}

// at is the view of a version, where it is not that of now.
func at(view sequencer.Seq) string {
	return mark(view != Now, fmt.Sprintf("@%d", view))
}

func indexed(i int, index uint32) string {
	return mark(int(index) != i, fmt.Sprintf(";index=%d", index))
}

func mark(v bool, s string) string {
	if v {
		return s
	}
	return ""
}

func want(w sequencer.Want) string {
	switch w.Access {
	case sequencer.ReadAccess:
		return "r:" + scope(w.Scope)
	case sequencer.WriteAccess:
		return "w:" + scope(w.Scope)
	}
	return fmt.Sprintf("access%d:%s", w.Access, scope(w.Scope))
}

func mode(m sequencer.Mode) string {
	if s := m.String(); s != "unknown" {
		return s
	}
	return strconv.Itoa(int(m))
}

// level is the anomaly of a name; zero: none has it.
func level(name string) sequencer.Levels {
	switch name {
	case "A1":
		return sequencer.A1
	case "A2":
		return sequencer.A2
	case "A3":
		return sequencer.A3
	case "A6":
		return sequencer.A6
	}
	return 0
}

func levels(v sequencer.Levels) string {
	if v > sequencer.L4 {
		return strconv.Itoa(int(v))
	}
	var out []string
	for _, n := range []string{"A1", "A2", "A3", "A6"} {
		if v&level(n) != 0 {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ",")
}

func txName(id sequencer.TxID) string { return name(string(id)) }

func join[T any](list []T, write func(T) string) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = write(v)
	}
	return strings.Join(out, ",")
}
