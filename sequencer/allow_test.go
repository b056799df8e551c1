package sequencer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// goFiles calls fn for each Go file below dir that git would keep.
func goFiles(t *testing.T, dir string, fn func(path string)) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != dir && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			seen++
			fn(path)
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Fatalf("%s: %d Go files, %v", dir, seen, err)
	}
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFoldImports: the fold is a pure function, so it imports nothing that does I/O, tells the time, draws lots, or
// runs beside it, and nothing of ours. To use another package of the standard library, add it here with its reason.
func TestFoldImports(t *testing.T) {
	allowed := []string{
		"cmp", "slices", "strings", "strconv", "unicode/utf8", // values and texts
		"container/heap",                   // the queue of a step
		"crypto/sha256", "encoding/binary", // hashes and the form that they are taken over
		"errors", "fmt", // what is said about bad input and broken invariants
	}
	goFiles(t, ".", func(path string) {
		if filepath.Dir(path) != "." || strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, spec := range parsed(t, path).Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s: the fold may import %s only", path, name, strings.Join(allowed, ", "))
			}
		}
	})
}

// TestNoGoroutines: nothing runs beside the fold, so it uses neither goroutines nor channels.
func TestNoGoroutines(t *testing.T) {
	goFiles(t, ".", func(path string) {
		if filepath.Dir(path) != "." || strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				t.Errorf("%s: the fold uses neither goroutines nor channels", path)
			}
			return true
		})
	})
}
