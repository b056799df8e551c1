package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/once"
	"github.com/hence-dev/hence/sidecar/view"
	"github.com/hence-dev/hence/topology"
)

// modeOf reads an order mode; empty is the default.
func modeOf(text string, def sequencer.Mode) (sequencer.Mode, error) {
	for _, m := range []sequencer.Mode{sequencer.Optimistic, sequencer.Ordered, sequencer.Locked} {
		if text == m.String() {
			return m, nil
		}
	}
	if text == "" {
		return def, nil
	}
	return 0, fmt.Errorf("mode %q: use optimistic, ordered or locked", text)
}

// levelsOf reads L0 to L4 or a list of anomalies; empty is nil, the workspace's own.
func levelsOf(text string) (*sequencer.Levels, error) {
	var out sequencer.Levels
	switch text {
	case "":
		return nil, nil
	case "L0":
		out = sequencer.L0
	case "L1":
		out = sequencer.L1
	case "L2":
		out = sequencer.L2
	case "L3":
		out = sequencer.L3
	case "L4":
		out = sequencer.L4
	default:
		for name := range strings.SplitSeq(text, ",") {
			one, ok := anomaly(name)
			if !ok {
				return nil, fmt.Errorf("levels %q: use L0, L1, L2, L3, L4, or a list of A1, A2, A3, A6 with commas", text)
			}
			out |= one
		}
	}
	return &out, nil
}

func anomaly(name string) (sequencer.Levels, bool) {
	switch name {
	case "A1":
		return sequencer.A1, true
	case "A2":
		return sequencer.A2, true
	case "A3":
		return sequencer.A3, true
	case "A6":
		return sequencer.A6, true
	}
	return 0, false
}

// shardScope reads a scope that names shards, in the bytes that it has.
func shardScope(text string) (sequencer.Scope, error) {
	scope, err := sequencer.ParseScope(text)
	if err != nil {
		return "", badScope(text, err)
	}
	if !scope.IsShard() {
		return "", api.Problemf(api.CodeBadScope, "scope %.80q is not a shard, and only shards (shard:/a/b) are kept "+
			"here: to act on anything else by yourself, touch it", text)
	}
	return scope, nil
}

// shardsUnder is shardScope for the queries of routes that are about shards alone: a path means a shard there, as it
// does in the route itself.
func shardsUnder(text string) (sequencer.Scope, error) {
	if !strings.Contains(text, ":") {
		text = "shard:/" + strings.TrimPrefix(text, "/")
	}
	return shardScope(text)
}

// shardNamed is the shard that a text names; see View.Named. A view that is not ready does not know what is stored.
func (s *Agent) shardNamed(ctx context.Context, text string) (sequencer.Scope, error) {
	exact, err := oneShard(text)
	if err != nil {
		return "", err
	}
	return s.named(ctx, exact)
}

// shardsNamed is the shard that a text names, or the pattern of shards.
func (s *Agent) shardsNamed(ctx context.Context, text string) (scope sequencer.Scope, pattern bool, err error) {
	if scope, err = shardScope(text); err != nil {
		return "", false, err
	}
	// A final ** is not part of a scope's form: shard:/a/** is shard:/a and all below, where shard:/a alone is one shard.
	if pattern = scope.HasStar() || strings.HasSuffix(text, "**") || len(scope.Segments()) == 0; pattern {
		scope, err = topology.NormalScope(scope)
	} else {
		scope, err = s.named(ctx, scope)
	}
	return scope, pattern, err
}

// named is the shard that a scope means.
func (s *Agent) named(ctx context.Context, exact sequencer.Scope) (sequencer.Scope, error) {
	if topology.IsNormal(exact) {
		return exact, nil
	}
	if err := s.await(ctx); err != nil {
		return "", err
	}
	scope, err := s.view.Named(exact)
	if err != nil {
		return "", api.Problemf(api.CodeBadScope, "%v", err)
	}
	return scope, nil
}

// oneShard reads a scope that names exactly one shard, in the bytes that it has.
func oneShard(text string) (sequencer.Scope, error) {
	scope, err := shardScope(text)
	if err != nil {
		return "", err
	}
	if scope.HasStar() || len(scope.Segments()) == 0 {
		return "", api.Problemf(api.CodeBadScope, "scope %.80q names more than one shard: write it out without wildcards",
			text)
	}
	return scope, nil
}

const maxNameBytes = 128

const maxToolBytes = 256

// maxDeadlineMs is the longest deadline that a request may ask for: a day.
const maxDeadlineMs = 24 * 60 * 60 * 1000

// badScope is the problem of a scope in a body that is not one. A path alone is not taken for a shard's: it may as
// well be a resource of a type that was left out.
func badScope(text string, err error) error {
	path := strings.TrimLeft(text, "/")
	kind, rest, named := strings.Cut(path, ":")
	first, below, _ := strings.Cut(path, "/")
	var meant []string
	switch {
	case text == "":
		return api.Problemf(api.CodeBadScope, "the scope is missing: write it as type:/path, for example shard:/orders/17")
	case !errors.Is(err, sequencer.ErrScopeForm):
	case named:
		meant = append(meant, kind+":/"+rest)
	case first == typeShard:
		meant = append(meant, "shard:/"+below)
	default:
		meant = append(meant, "shard:/"+path, first+":/"+below)
	}
	for i, m := range meant {
		scope, wrong := sequencer.ParseScope(m)
		if wrong != nil {
			meant = meant[:i]
			break
		}
		meant[i] = string(scope)
	}
	switch len(meant) {
	case 0:
		return api.Problemf(api.CodeBadScope, "%v", err)
	case 1:
		return api.Problemf(api.CodeBadScope, "scope %.80q is not type:/path: write %s", text, meant[0])
	}
	return api.Problemf(api.CodeBadScope, "scope %.80q has no type: write %s for the shard, or %s if %s is a type", text,
		meant[0],
		meant[1], first)
}

// mediaJSON is the media type of a value that names none.
const mediaJSON = "application/json"

// placeOf is a call's place in the list of them.
func placeOf(e api.Receipt) string {
	index := uint32(0)
	if e.Index != nil {
		index = *e.Index
	}
	return e.Tx + "/" + strconv.FormatUint(uint64(index), 10)
}

// opOf is how a write changes the content.
func opOf(text string) (sequencer.Op, error) {
	switch text {
	case "":
		return sequencer.OpSet, nil
	case "append":
		return sequencer.OpAppend, nil
	case "add":
		return sequencer.OpAdd, nil
	case "union":
		return sequencer.OpUnion, nil
	}
	return 0, api.Problemf(api.CodeBadRequest, "op is %.40q: send append, add or union, or leave it out", text)
}

// ticksOf is a time in ticks of the log, rounded up.
func ticksOf(ms int) sequencer.Tick {
	tick := int(view.TickLength.Milliseconds())
	return sequencer.Tick((ms + tick - 1) / tick)
}

// callOf checks what a request says of a tool call.
func callOf(tool string, args json.RawMessage, key string) (toolCall, error) {
	args = bytes.TrimSpace(args)
	switch {
	case tool == "" || len(tool) > maxToolBytes:
		return toolCall{}, api.Problemf(api.CodeBadRequest, "tool is missing or has more than %d bytes", maxToolBytes)
	case len(args) == 0:
		return toolCall{}, api.Problemf(api.CodeBadRequest, "args is missing: send an object, {} when the tool takes "+
			"nothing")
	case args[0] != '{':
		return toolCall{}, api.Problemf(api.CodeBadRequest, "args is not a JSON object: send the arguments by name")
	}
	if key != "" {
		if err := once.ValidKey(key); err != nil {
			return toolCall{}, err
		}
	}
	return toolCall{tool: topology.NormalName(tool), args: args, key: key}, nil
}

// toolCall is a tool call as a request asks for it.
type toolCall struct {
	tool string
	args json.RawMessage
	key  string
	call string // its id in a plan; empty: none names it
}

// wantsOf reads scopes with their access, in the one spelling of their names.
func wantsOf(list []api.Want) ([]sequencer.Want, error) {
	if len(list) == 0 {
		return nil, api.Problemf(api.CodeBadRequest, "wants is empty: name the scopes to act on, with access read or write")
	}
	var out []sequencer.Want
	for _, w := range list {
		scope, err := topology.ParseScope(w.Scope)
		if err != nil {
			return nil, badScope(w.Scope, err)
		}
		want := sequencer.Want{Scope: scope}
		switch w.Access {
		case "read":
		case "write":
			want.Access = sequencer.WriteAccess
		default:
			return nil, api.Problemf(api.CodeBadRequest, "access %.20q of %s: use read or write", w.Access, scope)
		}
		out = append(out, want)
	}
	return out, nil
}

// talkOf is the conversation that a reader's commits belong to.
func talkOf(reader string) string {
	plain := len(reader) <= mostTalk
	for i := 0; plain && i < len(reader); i++ {
		plain = reader[i] > ' ' && reader[i] <= '~'
	}
	if !plain {
		sum := sha256.Sum256([]byte(reader))
		reader = "sha256:" + hex.EncodeToString(sum[:16])
	}
	return readerTalk + reader
}

const readerTalk = "reader/" // begins the names of readers' conversations

// Bounds of what readers were given.
const (
	mostGiven    = 4096    // of one reader
	mostGivenAll = 1 << 20 // of all together, then the oldest readers end
	mostTalk     = 64      // bytes of a reader's name that names its conversation
)

func items(list []view.Named) []api.Item {
	out := make([]api.Item, 0, len(list))
	for _, n := range list {
		out = append(out, api.Item{Scope: string(n.Scope), Version: uint64(n.Version), Writer: string(n.Writer),
			MediaType: n.Media, Size: n.Size(), Lost: n.Lost})
	}
	return out
}

// typeShard is the type of what Hence itself keeps.
const typeShard = "shard"

func isJSON(media string) bool {
	kind, _, err := mime.ParseMediaType(media)
	return err == nil && (kind == mediaJSON || strings.HasSuffix(kind, "+json"))
}

// valueOf is the content of a write that is given as JSON: its bytes, without the space between its parts.
func valueOf(w *api.Write) ([]byte, error) {
	switch {
	case w.Content != nil || w.ContentBase64 != nil:
		return nil, api.Problemf(api.CodeBadRequest, "value and content are both given for %.80q: send one of them",
			w.Scope)
	case w.MediaType != "" && !isJSON(w.MediaType):
		return nil, api.Problemf(api.CodeBadRequest, "value is JSON, and media_type is %.60q: leave it out, or send "+
			"content",
			w.MediaType)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, w.Value); err != nil {
		return nil, api.Problemf(api.CodeBadRequest, "value is not JSON: %v", err)
	}
	return out.Bytes(), nil
}

// preferValue gives a content as a value where it is JSON. A null looks like no value at all: it stays a content.
func preferValue(out *api.Shard) {
	if out.Content != nil && *out.Content != "null" && isJSON(out.MediaType) && json.Valid([]byte(*out.Content)) {
		out.Value, out.Content = json.RawMessage(*out.Content), nil
	}
}
