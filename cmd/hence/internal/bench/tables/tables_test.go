package tables

import (
	"os"
	"strings"
	"testing"
)

func TestPure(t *testing.T) {
	cfg := Config{Env: Env{Seed: 1, Subject: Ours()}, Say: t.Logf}
	if v := os.Getenv("ROWS"); v != "" {
		cfg.Rows = strings.Split(v, ",")
	}
	cfg.Full = os.Getenv("FULL") != ""
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Error(err)
	}
	for _, o := range r.Rows {
		if o.Seconds > 0 {
			t.Logf("%s %.2fs\n   %s", o.ID, o.Seconds, o.line())
		}
	}
}
