package history

// Held is how many scopes and undecided transactions the builder has: it grows with the scopes that were ever named.
// Who reads a log that does not end begins another builder, after the last decision, when it holds too much.
func (b *Builder) Held() int { return b.places + len(b.open) }
