package sim

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestRealSame(t *testing.T) {
	diff := 0
	for seed := uint64(1); seed <= 40; seed++ {
		a, ea := RunReal(t, seed, Options{Trace: true, Dump: true})
		b, eb := RunReal(t, seed, Options{Trace: true, Dump: true})
		if seed == *seedFlag {
			for i, v := range []error{ea, eb} {
				var x *Violation
				if errors.As(v, &x) {
					os.WriteFile([]string{"/tmp/tr0", "/tmp/tr1"}[i], []byte(strings.Join(x.Trace, "\n")), 0o600)
				}
			}
		}
		if a.Hash != b.Hash || a.Records != b.Records {
			diff++
			t.Logf("seed %d: %d %d records", seed, a.Records, b.Records)
		}
	}
	t.Logf("%d differ", diff)
}
