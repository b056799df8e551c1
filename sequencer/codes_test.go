package sequencer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// TestCodes: Codes lists every constant that is a code, for a filter by reason refuses what is not in it.
func TestCodes(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if found++; !slices.Contains(sequencer.Codes(), sequencer.Code(text)) {
			t.Errorf("Codes does not list %s", text)
		}
		return true
	})
	if found != len(sequencer.Codes()) {
		t.Errorf("%d constants, %d codes", found, len(sequencer.Codes()))
	}
}
