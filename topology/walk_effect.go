package topology

// Bounds of a tool call in hence.events, beside those of a record and its texts.
const (
	MaxEffectInline = 128 << 10 // arguments or answer inline, bytes; longer ones are given by reference
	MaxEffectScopes = 1024      // scopes, and scopes of its touch
)

func walkEffectText(w *walker, e *EffectText) {
	fields := 15
	if w.decoding || e.ByHand != nil { // a record without it has the bytes that it always had
		fields = 16
	}
	outer := w.open(fields, 15)
	number(w, &e.Index)
	number(w, &e.Step)
	number(w, &e.Class)
	text(w, &e.Tool)
	pointer(w, &e.Pin, walkPin)
	text(w, &e.Key)
	shortList(w, &e.Scopes, MaxEffectScopes, wordBytes, text)
	shortList(w, &e.May, MaxEffectScopes, wordBytes, text)
	number(w, &e.Cost)
	signed(w, &e.MaxTimeMs)
	w.shortContent(&e.Args, MaxEffectInline)
	pointer(w, &e.ArgsRef, walkRef)
	w.shortContent(&e.Answer, MaxEffectInline)
	pointer(w, &e.AnswerRef, walkRef)
	text(w, &e.Detail)
	if fields > 15 {
		pointer(w, &e.ByHand, walkByHand)
	}
	w.close(outer)
}

func walkByHand(w *walker, b *ByHand) {
	outer := w.open(2, 2)
	text(w, &b.In)
	w.truth(&b.Undo)
	w.close(outer)
}
