package anomaly

// Held is how many entries a window's maps have.
func Held(w *Window) int { return len(w.latest) + len(w.at) + len(w.named) }
