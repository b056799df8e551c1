package ground

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// SidecarDisk is how many bytes the sidecars keep on the disk.
func (g *Ground) SidecarDisk() (sum int64, err error) {
	err = filepath.WalkDir(g.dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was replaced meanwhile
		case err != nil:
			return err
		case entry.IsDir() && path == g.servers():
			return fs.SkipDir
		case entry.IsDir() || filepath.Dir(path) == g.dir: // what children say is beside their folders
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look at the folders of the sidecars: %w", err)
	}
	return sum, nil
}

// servers is the folder of embedded servers that keep something.
func (g *Ground) servers() string { return filepath.Join(g.dir, "servers") }

// The roles of children.
const (
	RoleSidecar    = "sidecar"
	RoleProcessors = "streams"
)

// Goroutines is how many the children of a role have, as their metrics say.
func (g *Ground) Goroutines(ctx context.Context, role string) (sum int, err error) {
	for _, child := range g.cluster.Running() {
		if child.Role == role {
			n, err := goroutines(ctx, child.Address)
			if err != nil {
				return 0, fmt.Errorf("count the goroutines of %s: %w", child.Agent, err)
			}
			sum += n
		}
	}
	return sum, nil
}

func goroutines(ctx context.Context, address string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.Atoi(n)
		}
	}
	return 0, fmt.Errorf("%s/metrics has no go_goroutines: %s", address, answer.Status)
}
