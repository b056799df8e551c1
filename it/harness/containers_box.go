package harness

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// Box is one container, with what a nemesis does to it.
type Box struct {
	Alias   string
	net     *Net
	id      string
	answers func(context.Context) error
}

// act runs one request to the engine.
func (b *Box) act(what string, do func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), engineBound)
	defer cancel()
	if err := do(ctx, b.net.api.Client); err != nil {
		return fmt.Errorf("%s the container %s: %w", what, b.Alias, err)
	}
	return nil
}

// Kill ends it without a farewell. Its files stay.
func (b *Box) Kill() error {
	return b.act("kill", func(ctx context.Context, c *client.Client) error {
		_, err := c.ContainerKill(ctx, b.id, client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
}

// Stop asks it to end and waits for that.
func (b *Box) Stop() error {
	return b.act("stop", func(ctx context.Context, c *client.Client) error {
		_, err := c.ContainerStop(ctx, b.id, client.ContainerStopOptions{})
		return err
	})
}

// Start starts it again, on the same ports and files; it does not wait until it serves.
func (b *Box) Start() error {
	return b.act("start", func(ctx context.Context, c *client.Client) error {
		_, err := c.ContainerStart(ctx, b.id, client.ContainerStartOptions{})
		return err
	})
}

// Pause freezes it.
func (b *Box) Pause() error {
	return b.act("pause", func(ctx context.Context, c *client.Client) error {
		_, err := c.ContainerPause(ctx, b.id, client.ContainerPauseOptions{})
		return err
	})
}

// Unpause lets it go on.
func (b *Box) Unpause() error {
	return b.act("unpause", func(ctx context.Context, c *client.Client) error {
		_, err := c.ContainerUnpause(ctx, b.id, client.ContainerUnpauseOptions{})
		return err
	})
}

// Disconnect takes it out of its network: its peers hear nothing more, not even a farewell.
func (b *Box) Disconnect() error {
	return b.act("disconnect", func(ctx context.Context, c *client.Client) error {
		_, err := c.NetworkDisconnect(ctx, b.net.Name, client.NetworkDisconnectOptions{Container: b.id})
		return err
	})
}

// Connect brings it back into its network, under its name.
func (b *Box) Connect() error {
	return b.act("connect", func(ctx context.Context, c *client.Client) error {
		_, err := c.NetworkConnect(ctx, b.net.Name, client.NetworkConnectOptions{Container: b.id,
			EndpointConfig: &network.EndpointSettings{Aliases: []string{b.Alias}}})
		return err
	})
}

// Running says whether its process runs, and whether it is frozen.
func (b *Box) Running() (running, paused bool, err error) {
	err = b.act("look at", func(ctx context.Context, c *client.Client) error {
		seen, err := c.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
		if err == nil {
			running, paused = seen.Container.State.Running, seen.Container.State.Paused
		}
		return err
	})
	return running, paused, err
}

// Serving waits until it serves.
func (b *Box) Serving() error {
	ctx, cancel := context.WithTimeout(context.Background(), returnBound)
	defer cancel()
	return b.serving(ctx)
}

func (b *Box) serving(ctx context.Context) error {
	if b.answers == nil {
		return nil
	}
	if err := until(ctx, b.answers); err != nil {
		return fmt.Errorf("the container %s does not serve: %w", b.Alias, err)
	}
	return nil
}

// until asks again and again until the answer is nil.
func until(ctx context.Context, ask func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ask(once)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// Words are the last lines that it wrote.
func (b *Box) Words(lines int) string {
	var out bytes.Buffer
	err := b.act("read the log of", func(ctx context.Context, c *client.Client) error {
		logs, err := c.ContainerLogs(ctx, b.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true,
			Tail: strconv.Itoa(lines)})
		if err != nil {
			return err
		}
		defer logs.Close()
		_, err = stdcopy.StdCopy(&out, &out, logs)
		return err
	})
	if err != nil {
		return err.Error()
	}
	return out.String()
}

// Connected says whether it is in its network.
func (b *Box) Connected() (connected bool, err error) {
	err = b.act("look at", func(ctx context.Context, c *client.Client) error {
		seen, err := c.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
		if err == nil {
			_, connected = seen.Container.NetworkSettings.Networks[b.net.Name]
		}
		return err
	})
	return connected, err
}
