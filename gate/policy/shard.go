package policy

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
	"github.com/hence-dev/hence/sequencer"
)

func (b blockReader) shard(n *node) {
	s := &gate.ShardSpec{}
	b.b.parsed = s
	b.fields(n, "shard",
		field{"op", func(n *node) { s.Op = b.one(n, "shard.op", gate.OpRead, gate.OpWrite) }},
		field{"scope", func(n *node) { s.Scope = b.shardScope(n) }},
		field{"type", func(n *node) { s.Type = b.literal(n, "shard.type", "write a media type") }},
		field{"content", func(n *node) { s.Content = b.tree(n, "content", useValue) }})
	b.need(n, "op", "scope")
	for _, key := range []string{"type", "content"} {
		if f := n.Get(key); s.Op == gate.OpRead && f != nil {
			b.refuse(f.Place, "unknown-key", fmt.Sprintf("shard op read takes no %q", key), "remove it")
		}
	}
}

func (b blockReader) shardScope(n *node) string {
	text := b.template(n, "scope", useNames)
	t, err := template.Parse(text)
	if err != nil || text == "" {
		return text
	}
	what, fix := checkScope(t)
	switch {
	case what != "":
		b.refuse(n.Place, "scope", what, fix)
	case !strings.HasPrefix(text, "shard:/") || strings.Contains(text, "*"):
		b.refuse(n.Place, "scope", fmt.Sprintf("%q is no shard", text), "write shard:/path without wildcards")
	}
	return text
}

// checkShard holds a tool to what a transaction does with a shard: it reads it, or writes it at its commit, under no
// key; the log itself restores what stood there. false: it is no shard tool.
func (r *reader) checkShard(d *decl) bool {
	if d.block == nil {
		return false
	}
	s, ok := d.block.parsed.(*gate.ShardSpec)
	if !ok {
		return false
	}
	want := sequencer.ClassRead
	if s.Op == gate.OpWrite {
		want = sequencer.ClassBufferable
	}
	if s.Op != "" && d.class != want {
		r.refuse(d.place, "shard", fmt.Sprintf("its class is %s, and a shard's %s is a part of its transaction",
			d.class, s.Op), fmt.Sprintf("write \"class: %s\"", want))
	} else if d.undo == nil {
		r.checkClass(d) // cost and may
	}
	if d.key != nil {
		r.refuse(d.key.place, "shard", "it has a key, and a shard is written once with its transaction", "remove \"key\"")
	} else if d.keyed {
		r.refuse(d.keyedAt, "shard", "it is keyed, and a shard is written once with its transaction", "remove \"keyed\"")
	}
	if d.undo != nil {
		r.refuse(d.undoAt, "shard", "it has a compensation, and the log restores shards by itself",
			"remove \"compensation\"")
	}
	if d.approve && d.class.Gated() { // else its class is refused
		r.refuse(d.approveAt, "shard", "it needs approval, and a shard's write is no call that could wait for it",
			"remove \"approve\"")
	}
	if d.undoOnly {
		r.refuse(d.place, "shard", "it only undoes others, and a shard tool compensates nothing", "remove \"undo_only\"")
	}
	r.checkShardUses(d)
	return true
}

// checkShardUses: the footprint names the shard and nothing else, and what is part of no call of its own has no key,
// no index and nothing saved.
func (r *reader) checkShardUses(d *decl) {
	for _, l := range append(append([]located(nil), d.scopes...), d.may...) {
		if !strings.HasPrefix(strings.ToLower(l.String()), "shard:") {
			r.refuse(l.place, "shard", fmt.Sprintf("%q is no shard, and the tool reads or writes its shard only", l.String()),
				"name the shard: the scope of the adapter, or a wider one")
		}
	}
	for _, b := range d.block.templates {
		for _, u := range b.uses {
			if name := u.Path[0]; name == "$key" || name == "$index" || name == "$saved" {
				r.refuse(b.place, "shard", fmt.Sprintf("%s holds %s, which a shard's call does not have", b.what, u),
					"use the call's arguments, or {$tx}")
			}
		}
	}
}
