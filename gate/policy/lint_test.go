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
