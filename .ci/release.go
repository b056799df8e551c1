// Program release builds the archives of a release: a stripped binary for each system, with the checksums of all. The
// same commit and the same Go give the same bytes, wherever it runs.
//
//	go run .ci/release.go [-out DIR] [-targets linux/amd64,...] [-binary FILE]
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	systems = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"
	largest = 45 << 20 // bytes of one binary
)

// coldPackages are large and wait for a network, a disk or a person wherever they are used: their functions are not
// inlined, which takes several megabytes from the binary. The fold, our codecs and what frames records stay as they are.
const coldPackages = "github.com/nats-io/... github.com/twmb/franz-go/pkg/kfake github.com/twmb/franz-go/pkg/kmsg " +
	"github.com/twmb/franz-go/pkg/kadm github.com/jackc/... github.com/jcmturner/... github.com/IBM/sarama " +
	"github.com/lovoo/... github.com/syndtr/... github.com/goccy/... github.com/alecthomas/kong github.com/prometheus/... " +
	"github.com/rcrowley/... github.com/emersion/... google.golang.org/... go.opentelemetry.io/... golang.org/x/... " +
	"net/... crypto/tls crypto/x509/... math/big mime/... encoding/xml encoding/gob encoding/asn1 database/sql " +
	"text/template/... html/template regexp/... log/slog/... go/... internal/profile runtime/pprof compress/... " +
	"github.com/hence-dev/hence/cmd/... github.com/hence-dev/hence/sidecar/sim/... " +
	"github.com/hence-dev/hence/sidecar/console/... github.com/hence-dev/hence/gate/policy/... " +
	"github.com/hence-dev/hence/gate/adapters/... github.com/hence-dev/hence/gate/sinks/... " +
	"github.com/hence-dev/hence/gate/spelling/... github.com/hence-dev/hence/sidecar/api/... " +
	"github.com/hence-dev/hence/sidecar/client/... github.com/hence-dev/hence/sidecar/words/... " +
	"github.com/hence-dev/hence/sidecar/signature/... " +
	"github.com/hence-dev/hence/streams/embedded/... github.com/go-logr/... github.com/klauspost/compress/flate " +
	"github.com/klauspost/compress/gzip encoding/csv expvar testing/... text/tabwriter " +
	"github.com/modelcontextprotocol/... github.com/google/jsonschema-go/... github.com/segmentio/... " +
	"github.com/yosida95/... github.com/hence-dev/hence/gate/upstream/... github.com/hence-dev/hence/sidecar/mcp/... " +
	"github.com/hence-dev/hence/sidecar/sbus/... github.com/hence-dev/hence/sequencer/anomaly/brute " +
	"github.com/hence-dev/hence/sequencer/replay/... github.com/hence-dev/hence/topology/audit/... " +
	"github.com/hence-dev/hence/topology/trace/... github.com/hence-dev/hence/topology/history/... " +
	"github.com/hence-dev/hence/topology/lightcone/... vendor/golang.org/x/... text/scanner encoding/pem " +
	"github.com/twmb/franz-go/pkg/sasl/... github.com/twmb/franz-go/pkg/kerr github.com/shirou/... html " +
	"github.com/davecgh/... github.com/hashicorp/... github.com/eapache/... go.uber.org/... github.com/beorn7/... " +
	"github.com/hence-dev/hence/sidecar/llm/... github.com/hence-dev/hence/sidecar/feed/... " +
	"github.com/hence-dev/hence/sidecar/agent/settle github.com/hence-dev/hence/gate " +
	"github.com/hence-dev/hence/streams/inspect/... github.com/dunglas/... github.com/antithesishq/... " +
	"github.com/munnerz/... github.com/go-stack/... github.com/pierrec/... crypto/rsa crypto/ecdsa crypto/ecdh " +
	"crypto/internal/fips140/mlkem crypto/internal/fips140/nistec crypto/internal/fips140/ecdsa os/... encoding/json " +
	"github.com/hence-dev/hence/sidecar/coverage github.com/hence-dev/hence/sidecar/metrics"

func main() {
	out := flag.String("out", "dist", "folder of the archives")
	targets := flag.String("targets", systems, "systems, with commas")
	binary := flag.String("binary", "", "pack this one instead of building")
	only := flag.String("build", "", "build the binary of this machine as this file, and pack nothing")
	flag.Parse()
	if *only != "" {
		if err := build(*only, runtime.GOOS, runtime.GOARCH); err != nil {
			fmt.Fprintln(os.Stderr, "release:", err)
			os.Exit(1)
		}
		return
	}
	if err := release(*out, strings.Split(*targets, ","), *binary); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(out string, targets []string, binary string) error {
	at, err := committed()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	sums, err := os.Create(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		return err
	}
	defer sums.Close()
	for _, target := range targets {
		system, machine, ok := strings.Cut(target, "/")
		if !ok {
			return fmt.Errorf("%q is no system: write it as one of %s", target, systems)
		}
		name := "hence-" + system + "-" + machine
		size, err := archive(filepath.Join(out, name+".tar.gz"), name, system, machine, binary, at)
		if err != nil {
			return err
		}
		sum, err := sumOf(filepath.Join(out, name+".tar.gz"))
		if err == nil {
			_, err = fmt.Fprintf(sums, "%x  %s.tar.gz\n", sum, name)
		}
		if err != nil {
			return err
		}
		fmt.Printf("%-22s binary %.1f MB\n", name, float64(size)/1e6)
	}
	return nil
}

// committed is when the commit was made: the time of all files.
func committed() (time.Time, error) {
	text, err := exec.Command("git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the commit's time: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// archive builds for one system, unless the binary is there, and packs it with the licence and the README. It returns
// the binary's size.
func archive(path, name, system, machine, binary string, at time.Time) (size int64, err error) {
	if binary == "" {
		dir, err := os.MkdirTemp("", "hence-release-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "hence")
		if err := build(binary, system, machine); err != nil {
			return 0, err
		}
	}
	info, err := os.Stat(binary)
	if err != nil {
		return 0, err
	}
	if info.Size() >= largest {
		return 0, fmt.Errorf("the binary for %s/%s has %d bytes: it must have fewer than %d", system, machine, info.Size(),
			largest)
	}
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return info.Size(), pack(file, name, at, binary, "LICENSE", "README.md")
}

func build(binary, system, machine string) error {
	args := []string{"build", "-trimpath", "-ldflags=-s -w -buildid="}
	for _, pattern := range strings.Fields(coldPackages) {
		args = append(args, "-gcflags="+pattern+"=-l")
	}
	cmd := exec.Command("go", append(args, "-o", binary, "./cmd/hence")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine, "GOFLAGS=")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build for %s/%s: %w", system, machine, err)
	}
	return lean(binary)
}

// lean refuses a binary in which something looks up methods by names that the linker does not see. Then all exported
// methods of all types are in it, also this one that nothing calls, and it is 5 MB larger.
func lean(binary string) error {
	content, err := os.ReadFile(binary)
	if err == nil && bytes.Contains(content, []byte("reflect.(*Value).MethodByName")) {
		err = fmt.Errorf("%s has methods that nothing calls: in what \"go build -ldflags=-dumpdep ./cmd/hence\" prints, "+
			"<ReflectMethod> stands behind who looks them up by name (text/template does, and Parse and Run of kong)", binary)
	}
	return err
}

// pack writes an archive that says nothing of who made it, where and when.
func pack(to io.Writer, name string, at time.Time, paths ...string) error {
	zipped, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	files := tar.NewWriter(zipped)
	for i, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if i == 0 { // the binary
			mode = 0o755
		}
		head := &tar.Header{Name: name + "/" + filepath.Base(path), Mode: mode, Size: int64(len(text)), ModTime: at,
			Format: tar.FormatUSTAR}
		if err := files.WriteHeader(head); err != nil {
			return err
		}
		if _, err := files.Write(text); err != nil {
			return err
		}
	}
	if err := files.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

func sumOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return sum.Sum(nil), err
}
