package tables

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer/testsize"
)

// numbered are the claims of the four papers, as they are counted.
func numbered() (ids []string) {
	for _, paper := range []struct {
		format string
		last   int
	}{{"C%d", 43}, {"D%d", 65}, {"S%02d", 53}, {"A%02d", 45}} {
		for n := range paper.last {
			ids = append(ids, fmt.Sprintf(paper.format, n+1))
		}
	}
	return ids
}

// TestAllClaims holds that every claim is a row, once, and that each has a run or says why it has none.
func TestAllClaims(t *testing.T) {
	var got []string
	needs := []string{Nothing, Hence, Postgres, Redis, Kafka, None}
	for _, r := range Rows() {
		got = append(got, r.ID)
		unknown := slices.ContainsFunc(strings.Fields(r.Needs), func(n string) bool { return !slices.Contains(needs, n) })
		if r.Claim == "" || r.Value == "" || r.Needs == "" || unknown {
			t.Errorf("%s is not whole: %+v", r.ID, r)
		}
		if (r.run == nil) != (r.Waits != "") || r.Needs == None && r.run != nil {
			t.Errorf("%s has a run, and says that it waits for %q", r.ID, r.Waits)
		}
	}
	if want := numbered(); !slices.Equal(got, want) {
		t.Errorf("the rows are %v, want %v", got, want)
	}
	for _, runs := range []map[string]run{coneRuns(), detectorRuns(), busRuns(), atomixRuns(), gateRuns()} {
		for id := range runs {
			if !slices.Contains(got, id) {
				t.Errorf("%s runs, and is no claim", id)
			}
		}
	}
}

// slow are the rows that are left out of the ordinary run: they take more than the others together.
func slow() []string {
	return []string{"C7", "C23", "C15", "D5", "D8", "D9", "D13", "D14", "D15", "D16", "D17", "D19", "D22", "D24", "D25",
		"D26", "D27", "D35", "D56", "D64"}
}

// cut are the computed rows that the ordinary run has; at full size all of them.
func cut() (ids []string) {
	for _, r := range Rows() {
		if r.run != nil && r.Needs == Nothing && (!testsize.Small() || !slices.Contains(slow(), r.ID)) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// TestCut holds that a small cut of the rows says what docs/proof.md has: the verdicts, and all cells but their
// figures.
func TestCut(t *testing.T) {
	file, err := os.Open("../../../../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	shapes := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if shape, is := ShapeOf(lines.Text()); is {
			id, _, _ := strings.Cut(shape, " | ")
			shapes[id] = shape
		}
	}
	for _, id := range numbered() {
		if shapes[id] == "" {
			t.Errorf("docs/proof.md has no row %s", id)
		}
	}
	r, err := Run(t.Context(), Config{Rows: cut(), Env: Env{Seed: 1, Subject: Ours()}, Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Rows {
		if o := &r.Rows[i]; o.Shape() != shapes[o.ID] {
			t.Errorf("%s is\n%s\nand docs/proof.md has\n%s\nwrite it anew by hence bench tables --size full --doc "+
				"docs/proof.md",
				o.ID, o.Shape(), shapes[o.ID])
		}
		if strings.Contains(r.Rows[i].Ours, "EXTRA") || strings.Contains(r.Rows[i].Ours, "%!") {
			t.Errorf("%s: %s", r.Rows[i].ID, r.Rows[i].Ours)
		}
	}
}

// TestVerdictsFall gives each row of the cut broken subjects: its verdict falls with one of them at least.
func TestVerdictsFall(t *testing.T) {
	alone := []string{"D64"} // an estimator over a scripted reader: nothing of a subject is in it
	for _, row := range Rows() {
		if !slices.Contains(cut(), row.ID) || slices.Contains(alone, row.ID) {
			continue
		}
		killed := ""
		for _, m := range mutantsOf(row.Paper) {
			subject := Ours()
			m.breaks(&subject)
			if falls(t.Context(), row, &Env{Seed: 1, Subject: subject}) {
				killed = m.name
				break
			}
		}
		if killed == "" {
			t.Errorf("%s: %s: no broken subject makes the verdict fall", row.ID, row.Claim)
		}
	}
}

// falls says whether a row is not reproduced. One that panics on what no working subject returns has fallen, too.
func falls(ctx context.Context, row Row, env *Env) (fallen bool) {
	defer func() {
		if recover() != nil {
			fallen = true
		}
	}()
	got, err := row.run(ctx, env)
	return err != nil || got.Verdict == Missed
}

// TestNothingIsRunTwice holds what Run does with rows that it cannot run.
func TestNothingIsRunTwice(t *testing.T) {
	r, err := Run(t.Context(), Config{Env: Env{Seed: 1, Subject: Ours()}, Rows: []string{"c31", "D11", "S02"},
		Say:      t.Logf,
		Commands: "hence bench tables"})
	if err != nil || len(r.Rows) != 3 {
		t.Fatalf("%v, %+v", err, r)
	}
	if r.Rows[0].Verdict != Reproduced || r.Rows[0].Command != "hence bench tables --row C31" ||
		r.Rows[1].Verdict != NotHere || r.Rows[2].Verdict != NotRun || r.Rows[2].Ours != "" {
		t.Errorf("%+v", r.Rows)
	}
	if _, err := Run(t.Context(), Config{Rows: []string{"X1"}}); err == nil {
		t.Error("a row that is none is taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := Run(ctx, Config{Rows: []string{"C31"}}); !errors.Is(err,
		context.Canceled) || r.Rows[0].Verdict != NotRun {
		t.Errorf("interrupted: %v, %+v", err, r)
	}
}

// TestNoFigures holds that no text of the code has a figure: what a result shows is formatted from what was run. A
// figure within a name, such as A1, is none.
func TestNoFigures(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	verb, name := regexp.MustCompile(`%[-+# ]*[\d.]*[a-z%]`), regexp.MustCompile(`[A-Za-z_/#-][0-9]+`)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, imports := n.(*ast.ImportSpec); imports {
				return false
			}
			lit, is := n.(*ast.BasicLit)
			if !is || lit.Kind != token.STRING || path == "write.go" { // the document's frame, dates and patterns
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if text = name.ReplaceAllString(verb.ReplaceAllString(text, ""), ""); strings.ContainsAny(text, "0123456789") {
				t.Errorf("%s: %s has a figure: format it from what was run", set.Position(lit.Pos()), lit.Value)
			}
			return true
		})
	}
}

// TestShape holds that shapes of a row, of its line in a document, and of other figures are one, and of another
// verdict
// are not.
func TestShape(t *testing.T) {
	o := Outcome{ID: "D1", Claim: "a | b", Value: "5 of 7", Ours: "3 of 1,000 (1.5e-07 %)", Verdict: Reproduced}
	shape, is := ShapeOf(o.line())
	if !is || shape != o.Shape() {
		t.Errorf("%q, of the line %q", o.Shape(), shape)
	}
	other := o
	other.Ours = "12 of 9 (0.5 %)"
	if other.Shape() != shape {
		t.Errorf("%q, want %q", other.Shape(), shape)
	}
	if other.Verdict = Missed; other.Shape() == shape {
		t.Error("another verdict has one shape")
	}
	if other = o; true {
		if other.Ours = "some"; other.Shape() == shape {
			t.Error("another text has one shape")
		}
	}
	if _, is := ShapeOf("some | prose"); is {
		t.Error("prose is a row")
	}
}
