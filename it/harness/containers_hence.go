package harness

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"
)

// EnvImage names an image of Hence that is used instead of one made from the working tree.
const EnvImage = "HENCE_IMAGE"

// dockerfile is the image of the binary under test: laid out as the released one, made without a network.
const dockerfile = `FROM scratch
COPY --chown=65532:65532 home/ /var/lib/hence/
COPY hence /usr/bin/hence
ENV PATH=/usr/bin HOME=/var/lib/hence HENCE_DATA_DIR=/var/lib/hence
USER 65532:65532
ENTRYPOINT ["hence"]
`

// BuildStatic compiles a hence binary that needs nothing but the kernel, from the module in a folder; empty: this one.
func BuildStatic(source, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), BuildBound)
	defer cancel()
	path := filepath.Join(dir, "hence-static")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path,
		"github.com/hence-dev/hence/cmd/hence")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a static hence binary: %w\n%s", err, out)
	}
	return path, nil
}

// Image puts a static binary into an image of its own, which goes with the test. HENCE_IMAGE names another one.
func (n *Net) Image(tb testing.TB, binary string) string {
	tb.Helper()
	if image := os.Getenv(EnvImage); image != "" {
		tb.Logf("%s=%s", EnvImage, image)
		return image
	}
	tag := n.Name + ":test"
	if err := n.buildImage(tag, binary); err != nil {
		tb.Fatalf("build an image of the binary: %v", err)
	}
	tb.Cleanup(func() { // before the network's connection closes; its containers are removed by force
		n.say(tb)
		ctx, cancel := context.WithTimeout(context.Background(), engineBound)
		defer cancel()
		if err := n.removeBoxes(ctx); err != nil {
			tb.Error(err)
		}
		if _, err := n.api.ImageRemove(ctx, tag, client.ImageRemoveOptions{Force: true, PruneChildren: true}); err != nil {
			tb.Error(err)
		}
	})
	return tag
}

func (n *Net) buildImage(tag, binary string) error {
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	for _, f := range []struct {
		header tar.Header
		data   []byte
	}{
		{tar.Header{Name: "Dockerfile", Mode: 0o644}, []byte(dockerfile)},
		{tar.Header{Name: "home/", Mode: 0o755, Typeflag: tar.TypeDir}, nil},
		{tar.Header{Name: "hence", Mode: 0o755}, data},
	} {
		f.header.Size = int64(len(f.data))
		err = errors.Join(err, out.WriteHeader(&f.header))
		_, writeErr := out.Write(f.data)
		err = errors.Join(err, writeErr)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("pack the context: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	built, err := n.api.ImageBuild(ctx, &packed, client.ImageBuildOptions{Tags: []string{tag}, Remove: true,
		ForceRemove: true, Version: build.BuilderV1, Labels: map[string]string{labelRun: runLabel()}})
	if err != nil {
		return err
	}
	defer built.Body.Close()
	for lines := json.NewDecoder(built.Body); ; {
		var line struct {
			Error string `json:"error"`
		}
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return errors.New(line.Error)
		}
	}
}

// readyAt asks /readyz of a sidecar or a processor.
func readyAt(port int) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+local(port)+"/readyz", nil)
		if err != nil {
			return err
		}
		req.Close = true // a connection to a container that was killed is of no use
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		said, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("it says %s: %s", resp.Status, strings.TrimSpace(string(said)))
		}
		return err
	}
}

// address are the servers as other containers reach them.
func (f *Fleet) address() []string {
	return []string{"--brokers", strings.Join(f.InsideBrokers, ","), "--nats", f.InsideNATS}
}

// Streams is how a container of "hence streams" is made: a member of a replica's groups under its alias.
func (f *Fleet) Streams(image, alias, replica string, port int, args ...string) Recipe {
	cmd := append([]string{"streams", "--listen", "0.0.0.0:7421", "--replica", replica, "--instance", alias},
		append(f.address(), args...)...)
	return Recipe{Image: image, Alias: alias, Cmd: cmd, Ports: map[string]int{"7421": port}, Answers: readyAt(port)}
}

// Sidecar is how a container of "hence sidecar" is made. The token is in its environment, as everywhere.
func (f *Fleet) Sidecar(image, agent, workspace, token, policy string, port int) Recipe {
	cmd := append([]string{"sidecar", "--listen", "0.0.0.0:7420", "--agent", agent, "--workspace", workspace},
		f.address()...)
	r := Recipe{Image: image, Alias: "sidecar-" + agent, Env: map[string]string{"HENCE_TOKEN": token},
		Ports: map[string]int{"7420": port}, Answers: readyAt(port)}
	if policy != "" {
		const path = "/etc/hence/policy.yaml"
		r.Files, cmd = []File{{Path: path, Text: policy}}, append(cmd, "--policy", path)
	}
	r.Cmd = cmd
	return r
}
