package explore

// GateRow is one duty of whoever settles, a configuration that needs it, and what goes wrong in it without the duty.
type GateRow struct {
	Name     string
	Careless GateCareless
	Config   GateConfig
	Wrong    string // a part of the violation
	Large    bool   // with the duty it is a walk of a million states: on demand only
}

// GateRows lists the duties that small worlds show. Those with a number are rows of the table of holes.
func GateRows() []GateRow {
	none := func(*GateConfig) {}
	dies := func(c *GateConfig) { c.Crashes = 1 }
	twice := func(c *GateConfig) { c.Elsewhere = true }
	ends := func(c *GateConfig) { c.Down = true }
	quits := func(c *GateConfig) { c.Abort = true }
	lapses := func(c *GateConfig) { c.Lapses = true }
	renews := func(c *GateConfig) { c.Lapses, c.Renews = true, true }
	leaves := func(c *GateConfig) { c.Crashes, c.Leaves, c.Down = 1, true, true }
	return []GateRow{
		{"held", GateEarly, gateConfig("Ga", "Ea", quits), "leaves without a commit", false},
		{"4 claim", GateClaim, gateConfig("Ga", "Rb", twice), "reaches its sink twice", false},
		{"4 torn journal", GateClaim, gateConfig("Ga", "Rb", func(c *GateConfig) { c.Crashes, c.Torn = 1, true }),
			"reaches its sink twice", false},
		{"4 mark before the call", GateMark, gateConfig("Ga", "Rb", dies), "reaches its sink twice", false},
		{"4b owners in between", GateOwners, gateConfig("Ka", "", leaves), "settled as not sent, and it has left", true},
		{"6", GateTimeout, gateConfig("Ea", "Rb", none), "settled as clean, and it is not", false},
		{"8 adoption", GateAdopt, gateConfig("Ga", "Ra", dies), "waits for ever", false},
		{"8 lease", GateLease, gateConfig("Fa", "Ra", lapses), "lands after its settlement", false},
		{"8 renewal", GateConfirm, gateConfig("Ga", "", renews), "lands after its settlement", false},
		{"8b", GateWait, gateConfig("Ga", "Ea", dies), "lands after its settlement", false},
		{"8c", GateJoin, gateConfig("Ga", "Ea", twice), "lands after its settlement", false},
		{"13", GateEnd, gateConfig("Ka", "Ra", ends), "waits for ever", false},
		{"the key is the same in every attempt", GateKey, gateConfig("Ka", "Rb", dies), "reaches its sink twice", false},
		{"in the log before in the world", GateLog, gateConfig("Fa", "Rb", twice), "settled as clean, and it is not",
			false},
		{"issuance order", GateOrder, gateConfig("Ka Kb", "Rb", none), "before it has not got through", false},
		{"stop at the first", GateStop, gateConfig("Ka Kb", "Rb", ends), "before it has not got through", false},
		{"stop in reverse", GateStop, gateConfig("Fa Fa", "", dies), "over a value that is not its own", true},
		{"unknown is not clean", GateClean, gateConfig("Ga", "Rb", none), "settled as clean, and it is not", false},
		{"one unknown try", GateMaybe, gateConfig("Ka", "Rb", ends), "settled as not sent, and it has left", false},
	}
}

// GateConfigs lists the configurations of the gate's world that are walked without a violation: effects that run at
// once and held ones, with and without keys, beside one that reads or takes what they move, under each kind of
// failure.
func GateConfigs() []GateConfig {
	changes := []func(*GateConfig){
		func(c *GateConfig) { c.Down, c.Abort = true, true },
		func(c *GateConfig) { c.Crashes = 1 },
		func(c *GateConfig) { c.Crashes = 2 },
		func(c *GateConfig) { c.Crashes, c.Torn = 1, true },
		func(c *GateConfig) { c.Crashes, c.Down = 1, true },
		func(c *GateConfig) { c.Elsewhere = true },
		func(c *GateConfig) { c.Elsewhere, c.Down = true, true },
		func(c *GateConfig) { c.Lapses = true },
		func(c *GateConfig) { c.Crashes, c.Leaves = 1, true },
		func(c *GateConfig) { c.Crashes, c.Leaves, c.Down = 1, true, true },
	}
	var out []GateConfig
	for _, first := range []string{"Ga", "Ka", "Ea", "Fa", "Ga Kb", "Ka Gb", "Ea Gb", "Fa Kb", "Ea Fb", "Ga Ga",
		"Fa Fa"} {
		for _, second := range []string{"Ea", "Ra Gb", "Rb Ga"} {
			for _, change := range changes {
				out = append(out, gateConfig(first, second, change))
			}
		}
	}
	return out
}
