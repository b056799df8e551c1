package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar/client"
)

// shardCmd holds the commands about shards.
type shardCmd struct {
	Ls  shardLsCmd  `cmd:"" help:"List shards by name."`
	Get shardGetCmd `cmd:"" help:"Print the content of a shard."`
	Put shardPutCmd `cmd:"" dev:"told" help:"Write a shard in its own transaction."`
}

// aside is a client in a conversation of its own: what a user writes carries nothing that the agent has read.
func (o inWorkspace) aside() *client.Client {
	return o.asking.client(client.WithWorkspace(o.Workspace), client.WithSession("hence-cli"))
}

// shardName is a shard as it may be written on a command line, in full.
func shardName(text string) string {
	return "shard:/" + strings.TrimPrefix(strings.TrimPrefix(text, "shard:"), "/")
}

// shardLsCmd is the configuration of "hence shard ls".
type shardLsCmd struct {
	output
	inWorkspace
	paging
	Prefix string `arg:"" optional:"" help:"Path of the shards, such as orders or orders/*/lines; default: all."`
}

// Run lists.
func (c *shardLsCmd) Run(ctx context.Context, s Streams) error {
	list, err := c.client().LookAll(ctx, shardName(c.Prefix), c.After, c.Limit)
	if err != nil {
		return fmt.Errorf("list the shards: %w", err)
	}
	return c.print(s.Out, list, func(w io.Writer) error {
		t := show.Table{Head: []string{"SHARD", "VERSION", "BYTES", "TYPE", "WRITER"}}
		for _, one := range list.Items {
			t.Add(one.Scope, strconv.FormatUint(one.Version, 10), strconv.FormatInt(one.Size, 10), one.MediaType, one.Writer)
		}
		return printList(w, t, "no shard is there", list.Next)
	})
}

// shardGetCmd is the configuration of "hence shard get".
type shardGetCmd struct {
	output
	inWorkspace
	Shard   string `arg:"" help:"Name of the shard, such as orders/1."`
	Version uint64 `env:"-" placeholder:"N" help:"Former version, if the sidecar still has it."`
}

// ShardShown is what "hence shard get -o json" prints.
type ShardShown struct {
	Scope     string `json:"scope"`
	Version   uint64 `json:"version"`
	Writer    string `json:"writer,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Content   []byte `json:"content_base64"`
}

// Run prints the content as it is; to a terminal without what that would act on.
func (c *shardGetCmd) Run(ctx context.Context, s Streams) error {
	name := shardName(c.Shard)
	got, err := client.Shard{}, error(nil)
	if c.Version > 0 {
		got, err = c.client().GetVersion(ctx, name, c.Version)
	} else {
		got, err = c.client().Look(ctx, name)
	}
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	case !got.Exists:
		return fmt.Errorf("%s does not exist: hence shard ls lists what does", name)
	case c.json():
		return c.print(s.Out, ShardShown{got.Scope, got.Version, got.Writer, got.MediaType, got.Content}, nil)
	case show.IsTerminal(s.Out):
		_, err = fmt.Fprintln(show.Lines(s.Out), string(got.Content))
	default:
		_, err = s.Out.Write(got.Content)
	}
	return err
}

// shardPutCmd is the configuration of "hence shard put".
type shardPutCmd struct {
	output
	inWorkspace
	Shard     string  `arg:"" help:"Name of the shard, such as orders/1."`
	Content   string  `arg:"" help:"Content to write; - reads the standard input."`
	MediaType string  `env:"-" default:"text/plain; charset=utf-8" placeholder:"TYPE" help:"Media type of the content."`
	IfVersion *uint64 `env:"-" placeholder:"N" help:"Version that the shard must have; 0: it must not exist."`
	Op        string  `env:"-" default:"set" enum:"set,append,add,union" help:"What it does to what is there: ${enum}."`
}

// opText is an op as a request names it: one that sets the content is the default.
func opText(op string) string {
	if op == "set" {
		return ""
	}
	return op
}

// Run writes.
func (c *shardPutCmd) Run(ctx context.Context, s Streams) error {
	name, content := shardName(c.Shard), []byte(c.Content)
	if c.Content == "-" {
		var err error
		if content, err = io.ReadAll(s.In); err != nil {
			return fmt.Errorf("read the content: %w", err)
		}
	}
	d, err := c.aside().Put(ctx, name, content, client.WriteOptions{MediaType: c.MediaType, IfVersion: c.IfVersion,
		Op: opText(c.Op)})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := c.print(s.Out, d, func(w io.Writer) error {
		if d.State == "committed" {
			return show.Plainly(w, "%s is written: %s committed at seq %d\n", name, d.Tx, d.Seq)
		}
		return show.Plainly(w, "%s is not written: %s was aborted, %s: %s\n", name, d.Tx, d.Code, d.Detail)
	}); err != nil {
		return err
	}
	if d.State != "committed" {
		return errCheck
	}
	return nil
}
