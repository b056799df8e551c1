package explore

// Row is one settlement duty, a configuration that needs it, and what goes wrong in it without the duty.
type Row struct {
	Name     string
	Careless Careless
	Config   Config
	Wrong    string // a part of the violation
	Large    bool   // with the duty it is a walk of a million states: on demand only
}

// Rows lists the duties that small worlds show. Those with a number are rows of the table of holes.
func Rows() []Row {
	none := func(*Config) {}
	dies := func(c *Config) { c.Crashes = 1 }
	twice := func(c *Config) { c.Elsewhere = true }
	ends := func(c *Config) { c.Down = true }
	quits := func(c *Config) { c.Abort = true }
	lapses := func(c *Config) { c.Lapses = true }
	renews := func(c *Config) { c.Lapses, c.Renews = true, true }
	leaves := func(c *Config) { c.Crashes, c.Leaves, c.Down = 1, true, true }
	return []Row{
		{"held", CarelessEarly, gateConfig("Ga", "Ea", quits), "leaves without a commit", false},
		{"4 claim", CarelessClaim, gateConfig("Ga", "Rb", twice), "reaches its sink twice", false},
		{"4 torn journal", CarelessClaim, gateConfig("Ga", "Rb", func(c *Config) { c.Crashes, c.Torn = 1, true }),
			"reaches its sink twice", false},
		{"4 mark before the call", CarelessMark, gateConfig("Ga", "Rb", dies), "reaches its sink twice", false},
		{"4b owners in between", CarelessOwners, gateConfig("Ka", "", leaves), "settled as not sent, and it has left", true},
		{"6", CarelessTimeout, gateConfig("Ea", "Rb", none), "settled as clean, and it is not", false},
		{"8 adoption", CarelessAdopt, gateConfig("Ga", "Ra", dies), "waits for ever", false},
		{"8 lease", CarelessLease, gateConfig("Fa", "Ra", lapses), "lands after its settlement", false},
		{"8 renewal", CarelessConfirm, gateConfig("Ga", "", renews), "lands after its settlement", false},
		{"8b", CarelessWait, gateConfig("Ga", "Ea", dies), "lands after its settlement", false},
		{"8c", CarelessJoin, gateConfig("Ga", "Ea", twice), "lands after its settlement", false},
		{"13", CarelessEnd, gateConfig("Ka", "Ra", ends), "waits for ever", false},
		{"the key is the same in every attempt", CarelessKey, gateConfig("Ka", "Rb", dies), "reaches its sink twice", false},
		{"in the log before in the world", CarelessLog, gateConfig("Fa", "Rb", twice), "settled as clean, and it is not",
			false},
		{"issuance order", CarelessOrder, gateConfig("Ka Kb", "Rb", none), "before it has not got through", false},
		{"stop at the first", CarelessStop, gateConfig("Ka Kb", "Rb", ends), "before it has not got through", false},
		{"stop in reverse", CarelessStop, gateConfig("Fa Fa", "", dies), "over a value that is not its own", true},
		{"unknown is not clean", CarelessClean, gateConfig("Ga", "Rb", none), "settled as clean, and it is not", false},
		{"one unknown try", CarelessMaybe, gateConfig("Ka", "Rb", ends), "settled as not sent, and it has left", false},
	}
}

// Configs lists the configurations of the gate's world that are walked without a violation: effects that run at
// once and held ones, with and without keys, beside one that reads or takes what they move, under each kind of
// failure.
func Configs() []Config {
	changes := []func(*Config){
		func(c *Config) { c.Down, c.Abort = true, true },
		func(c *Config) { c.Crashes = 1 },
		func(c *Config) { c.Crashes = 2 },
		func(c *Config) { c.Crashes, c.Torn = 1, true },
		func(c *Config) { c.Crashes, c.Down = 1, true },
		func(c *Config) { c.Elsewhere = true },
		func(c *Config) { c.Elsewhere, c.Down = true, true },
		func(c *Config) { c.Lapses = true },
		func(c *Config) { c.Crashes, c.Leaves = 1, true },
		func(c *Config) { c.Crashes, c.Leaves, c.Down = 1, true, true },
	}
	var out []Config
	for _, first := range []string{"Ga", "Ka", "Ea", "Fa", "Ga Kb", "Ka Gb", "Ea Gb", "Fa Kb", "Ea Fb", "Ga Ga",
		"Fa Fa", "La", "Ma", "La Mb"} {
		for _, second := range []string{"Ea", "Ra Gb", "Rb Ga"} {
			for _, change := range changes {
				out = append(out, gateConfig(first, second, change))
			}
		}
	}
	return out
}
