package explore

import "testing"

// TestConversations walks two conversations of one agent, of two transactions each, on two scopes.
func TestConversations(t *testing.T) {
	walk(t, "2 x 2, conversations", full(t, "HENCE_EXPLORE_ALL", TalkConfigs(), 4))
}
