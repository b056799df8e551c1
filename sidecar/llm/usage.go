package llm

// usage is how many tokens an answer says that it took. Streams say it more than once, and ever more.
type usage struct{ in, out uint64 }

// event takes what an event of a stream, or a whole answer, says of its tokens, in any of the shapes.
func (u *usage) event(v any) {
	if all, ok := v.([]any); ok { // Gemini's stream without server-sent events
		for _, one := range all {
			u.event(one)
		}
		return
	}
	m, _ := v.(map[string]any)
	for _, key := range []string{"message", "response"} { // Anthropic's first event, and the last one of a response
		if inner, ok := m[key].(map[string]any); ok {
			u.event(inner)
		}
	}
	for _, key := range []string{"usage", "usageMetadata"} {
		said, _ := m[key].(map[string]any)
		u.in = max(u.in, count(said, "prompt_tokens"), count(said, "promptTokenCount"), count(said, "input_tokens")+
			count(said, "cache_creation_input_tokens")+count(said, "cache_read_input_tokens"))
		u.out = max(u.out, count(said, "completion_tokens"), count(said, "output_tokens"),
			count(said, "candidatesTokenCount")+count(said, "thoughtsTokenCount"))
	}
}

func count(m map[string]any, key string) uint64 {
	n, _ := m[key].(interface{ Int64() (int64, error) })
	if n == nil {
		return 0
	}
	got, err := n.Int64()
	if err != nil || got < 0 || got > mostTokens {
		return 0
	}
	return uint64(got)
}

const mostTokens = 1 << 40 // what is beyond is no count of tokens
