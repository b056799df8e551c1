package agent

import (
	"context"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
)

// catalogue is what a policy announces of its tools: pins are held against it. A policy that has none pins nothing.
type catalogue interface {
	Catalogue() (server string, tools []sequencer.Tool)
}

// announceTools registers the policy's tools for an incarnation. No seal of it can come before that in the log.
func (s *Agent) announceTools(ctx context.Context, inc sequencer.Seq) error {
	c, ok := s.tools.(catalogue)
	if !ok {
		return nil
	}
	server, tools := c.Catalogue()
	if len(tools) == 0 {
		return nil
	}
	in := &sequencer.Intent{Kind: sequencer.IntentRegister, Agent: s.agent, Incarnation: inc,
		Register: &sequencer.Register{Server: server, Generation: 1, Tools: tools}}
	ctx, cancel := context.WithTimeout(ctx, appendTry)
	defer cancel()
	if _, err := s.append(ctx, in); err != nil {
		return fmt.Errorf("register the policy's tools: %w", err)
	}
	return nil
}
