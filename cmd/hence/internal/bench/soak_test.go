package bench

import (
	"strings"
	"testing"
	"time"
)

// A soak whose samples after --from are too few for a slope is refused before it begins, and the refusal says what to
// give instead. What its servers need is asked for as of any other measurement.
func TestSoakValidate(t *testing.T) {
	const lasts, every = 30 * time.Minute, 10 * time.Second
	for name, c := range map[string]struct {
		change func(*SoakConfig)
		says   string // of the refusal; empty: it is taken
	}{
		"as by default": {func(*SoakConfig) {}, ""},
		"just enough":   {func(c *SoakConfig) { c.From = lasts - soakSamples*every }, ""},
		"one too few": {func(c *SoakConfig) { c.From = lasts - soakSamples*every + 1 },
			"4 samples after --from show no slope: give at least 5"},
		"none": {func(c *SoakConfig) { c.Every = lasts }, "0 samples after --from show no slope"},
		"a third by default": {func(c *SoakConfig) { c.Lasts, c.From, c.Every = 30*time.Second, 0, 6*time.Second },
			"3 samples after --from"},
		"from at the end":    {func(c *SoakConfig) { c.From = lasts }, "a smaller --from, or more --minutes"},
		"from after the end": {func(c *SoakConfig) { c.From = 2 * lasts }, "a smaller --from, or more --minutes"},
		"half of servers":    {func(c *SoakConfig) { c.NATS = "nats://127.0.0.1:1" }, "brokers and nats belong together"},
		"no program":         {func(c *SoakConfig) { c.Program = "" }, "need the program"},
	} {
		cfg := SoakConfig{Config: Config{Program: "hence"}, Lasts: lasts, From: 10 * time.Minute, Every: every}
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
