package policy

import "testing"

func TestExampleLintsClean(t *testing.T) {
	p := example(t)
	for _, f := range p.Lint() {
		if f.Severity == Mistake {
			t.Error(f.Text(p.File()))
		} else {
			t.Log(f.Text(p.File()))
		}
	}
}

func TestExampleFuzzesClean(t *testing.T) {
	p := example(t)
	rewrites, found := p.Fuzz(1, 3_000)
	if rewrites < 3_000 {
		t.Errorf("%d rewrites of 3000", rewrites)
	}
	for _, f := range found {
		t.Error(f.Text(p.File()))
	}
}
