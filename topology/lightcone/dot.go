package lightcone

import (
	"fmt"
	"slices"
	"strings"
)

// DOT draws the topology for Graphviz: who cannot honestly read whom is red. A serializer is a box of its own.
func (t Topology) DOT(r Report) string {
	var b strings.Builder
	b.WriteString("digraph topology {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n" +
		"  edge [fontname=\"sans-serif\"];\n")
	for i, p := range t.Places {
		lines := []string{p.Name, p.Config.String()}
		if row, ok := NameOf(p.Config); ok {
			lines = append(lines, row.Name)
		}
		if carries := r.Carries[i].String(); carries != p.Config.String() {
			lines = append(lines, "carries "+carries)
		}
		color := ""
		if at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Place == p.Name && f.From == "" }); at >= 0 {
			color, lines = ", color=red", append(lines, "retention too short")
		}
		fmt.Fprintf(&b, "  %s [label=%s%s];\n", quoted(p.Name), quoted(strings.Join(lines, "\n")), color)
		if p.Config.Serializer {
			fmt.Fprintf(&b, "  %[1]s [label=%[2]s, style=rounded];\n  %[1]s -> %[3]s [dir=both, style=dashed];\n",
				quoted(p.Name+" serializer"), quoted("serializer of "+p.Name+"\norders by real time"), quoted(p.Name))
		}
	}
	for _, l := range t.Links {
		label, style := "", "solid"
		if l.Append {
			label, style = "by reference", "dashed"
		}
		color := "black"
		at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Place == l.To && f.From == l.From })
		if at >= 0 {
			color = "red"
			needs := r.Findings[at].Reason
			label = strings.TrimPrefix(label+"\nmissing: closure "+closureText(Set{needs.Needs}), "\n")
			if needs.Order {
				label = strings.Replace(label, "closure "+closureText(Set{needs.Needs}), "order "+orderText(Set{needs.Needs}), 1)
			}
		}
		fmt.Fprintf(&b, "  %s -> %s [label=%s, style=%s, color=%s];\n", quoted(l.From), quoted(l.To), quoted(label), style,
			color)
	}
	b.WriteString("}\n")
	return b.String()
}

// quoted is a text as DOT takes it.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
