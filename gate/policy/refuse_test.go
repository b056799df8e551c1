package policy

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
)

var rewriteGolden = flag.Bool("rewrite", false, "write the refusals as they are now")

// TestRefusals loads every file of testdata/refused and compares the refusal, with its lines and fixes, with the text
// beside it.
func TestRefusals(t *testing.T) {
	files, err := filepath.Glob("testdata/refused/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Load(data, Options{File: "policy.yaml"})
			if !errors.Is(err, ErrPolicy) {
				t.Fatalf("it is not refused: %v", err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *rewriteGolden {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if got := err.Error() + "\n"; got != string(want) {
				t.Fatalf("it is refused by\n%swant\n%s(go test ./gate/policy -run Refusals -rewrite writes it)", got, want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Fatal("the refusal repeats a secret")
			}
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok {
				t.Fatal("it is no *Refusal")
			}
			for _, f := range refusal.Findings {
				if f.Fix == "" || f.What == "" || f.Rule == "" || f.Severity != Mistake {
					t.Errorf("a finding without fix: %+v", f)
				}
			}
		})
	}
}

func TestAdapterRefusesAtLoad(t *testing.T) {
	text := head + "tools:\n  - tool: a\n    class: read\n    scopes: [\"a:/\"]\n    exec: {argv: [/bin/true]}\n"
	_, err := Load([]byte(text), Options{Build: func(gate.Decl) (gate.Adapter, error) {
		return nil, errors.New("write it anew")
	}})
	if err == nil || err.Error() != "policy:7:12: tool a: its exec adapter refuses the declaration: write it anew" {
		t.Fatal(err)
	}
}

const head = "version: 1\nserver: s\n"
