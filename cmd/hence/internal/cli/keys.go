package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/signature"
)

// maxKeyFile bounds the file of a private key, in bytes.
const maxKeyFile = 16 << 10

// keyring is how a sidecar is told whose signatures count.
type keyring struct {
	Keys      string   `type:"path" placeholder:"FILE" help:"YAML list of who may sign requests: name, key and role."`
	Authority []string `placeholder:"HOST" help:"Hosts under which signed requests may come, besides the address."`

	listed []sidecar.Key
}

// load reads the list.
func (k *keyring) load() error {
	if k.Keys == "" {
		return nil
	}
	k.listed = nil
	return readNames(k.Keys, "a key", "write a list, for each key \"- name: NAME\" and below it \"key: KEY\" and "+
		"\"role: agent\", operator or approver, as hence keys new prints it", []string{"name", "key", "role"},
		func(v []string) string {
			key, err := base64.StdEncoding.DecodeString(v[1])
			switch {
			case err != nil || len(key) != ed25519.PublicKeySize:
				return "the key of " + v[0] + " is not one of Ed25519 in base64, of 44 characters"
			case v[2] != sidecar.KeyAgent && v[2] != sidecar.KeyOperator && v[2] != sidecar.KeyApprover:
				return "the key of " + v[0] + " has no role, or one that is not known"
			case v[2] == sidecar.KeyAgent && sidecar.ValidAgent(v[0]) != nil:
				return sidecar.ValidAgent(v[0]).Error()
			}
			k.listed = append(k.listed, sidecar.Key{Name: v[0], Role: v[2], Public: key})
			return ""
		})
}

// readKey reads the file of a private key, which is for its owner alone.
func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := access.ReadKey(path, maxKeyFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no private key in PEM: hence keys new makes one", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the key in %s: %w", path, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key in %s is a %T and not one of Ed25519: hence keys new makes one", path, key)
	}
	return private, nil
}

// keysCmd holds the commands about keys that sign requests.
type keysCmd struct {
	New  keysNewCmd  `cmd:"" help:"Make a key pair."`
	Show keysShowCmd `cmd:"" help:"Print the public key of a private key file."`
	Sign keysSignCmd `cmd:"" help:"Print the headers that sign a request."`
}

// keyNamed is how a public key is listed.
type keyNamed struct {
	Name string `arg:"" help:"Name of the agent, operator or approver whose key it is."`
	Role string `env:"-" default:"agent" enum:"agent,operator,approver" help:"What the key may do: ${enum}."`
}

// KeyShown is what "hence keys new -o json" and "hence keys show -o json" print.
type KeyShown struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	Role string `json:"role"`
	ID   string `json:"id"` // the keyid of its signatures, and the signer of decisions
}

func (k keyNamed) shown(public ed25519.PublicKey) KeyShown {
	return KeyShown{k.Name, base64.StdEncoding.EncodeToString(public), k.Role, signature.KeyID(public)}
}

// write prints an item of the list that --keys names.
func (k KeyShown) write(w io.Writer) error {
	return show.Plainly(w, "- name: %s\n  key: %s\n  role: %s\n", k.Name, k.Key, k.Role)
}

// keysNewCmd is the configuration of "hence keys new".
type keysNewCmd struct {
	output
	keyNamed
	Out string `env:"-" type:"path" required:"" placeholder:"FILE" help:"File of the private key; it must not exist."`
}

// Help is what "hence keys new --help" says beyond the flags.
func (c *keysNewCmd) Help() string {
	return `The private key stays in the file, in PEM, for its owner alone (mode 600). What is printed is an item of the
list that a sidecar reads with --keys.`
}

// Run makes the pair.
func (c *keysNewCmd) Run(s Streams) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	file, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // it may be the only copy of a key
		return fmt.Errorf("%s is there already: name another file, or remove it", c.Out)
	}
	if err != nil {
		return fmt.Errorf("write the private key: %w", err)
	}
	err = pem.Encode(file, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write the private key: %w", err)
	}
	out := c.shown(public)
	return c.print(s.Out, out, out.write)
}

// keysShowCmd is the configuration of "hence keys show".
type keysShowCmd struct {
	output
	keyNamed
	KeyFile string `type:"path" required:"" placeholder:"FILE" help:"File of the private key."`
}

// Help is what "hence keys show --help" says beyond the flags.
func (c *keysShowCmd) Help() string {
	return `It prints an item of the list that a sidecar reads with --keys. With -o json also the key's id, by which
signatures and decisions name it.`
}

// Run prints.
func (c *keysShowCmd) Run(s Streams) error {
	key, err := readKey(c.KeyFile)
	if err != nil {
		return err
	}
	out := c.shown(key.Public().(ed25519.PublicKey))
	return c.print(s.Out, out, out.write)
}

// keysSignCmd is the configuration of "hence keys sign".
type keysSignCmd struct {
	KeyFile string   `type:"path" required:"" placeholder:"FILE" help:"File of the private key."`
	Method  string   `arg:"" help:"Method of the request, such as POST."`
	Address string   `arg:"" help:"URL of the request, in full."`
	Header  []string `short:"H" env:"-" sep:"none" placeholder:"TEXT" help:"Header of the request, \"Name: value\"."`
	Data    string   `short:"d" env:"-" placeholder:"FILE" help:"File with the request's body; - is the standard input."`
}

// Help is what "hence keys sign --help" says beyond the flags.
func (c *keysSignCmd) Help() string {
	return `What it prints are the headers of the request, for curl -H @FILE: those that were given, and those of the
signature. A sidecar takes them once, within a minute. docs/signatures.md says what is signed.`
}

// Run prints the headers.
func (c *keysSignCmd) Run(ctx context.Context, s Streams) (err error) {
	key, err := readKey(c.KeyFile)
	if err != nil {
		return err
	}
	var body []byte
	switch c.Data {
	case "":
	case "-":
		body, err = io.ReadAll(s.In)
	default:
		body, err = os.ReadFile(c.Data)
	}
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, strings.ToUpper(c.Method), c.Address, bytes.NewReader(body))
	if err != nil || r.URL.Host == "" {
		return misused(fmt.Errorf("%s %s is no request: write the method and the whole URL", c.Method, c.Address))
	}
	for _, text := range c.Header {
		name, value, found := strings.Cut(text, ":")
		if !found {
			return misused(fmt.Errorf("--header %.60q is none: write \"Name: value\"", text))
		}
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if err := signature.NewSigner(key).Sign(r, body); err != nil {
		return err
	}
	return r.Header.Write(s.Out)
}
