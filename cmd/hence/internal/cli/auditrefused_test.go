package cli

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"
	"testing"

	"github.com/hence-dev/hence/topology/audit"
)

// noRecords is an unused workspace.
type noRecords struct{ twoDecisions }

func (noRecords) Place(string) audit.Place { return audit.Place{} }

// TestAuditRefused holds what "hence audit" does not take as sound: another workspace than the one that was asked for,
// and one that has no records.
func TestAuditRefused(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	whole := bundled(t, newTwoDecisions(t, key))
	refused := func(parts []string, args ...string) {
		t.Helper()
		code, out, errs := hence(t, append([]string{"audit"}, args...)...)
		for _, part := range parts {
			if code != ExitFailed || !strings.Contains(errs, part) {
				t.Errorf("hence audit %v: exit code %d, %q, %q; want %q", args, code, out, errs, part)
			}
		}
	}
	taken := func(args ...string) {
		t.Helper()
		if code, out, errs := hence(t, append([]string{"audit"}, args...)...); code != ExitOK {
			t.Errorf("hence audit %v: exit code %d, %q, %q", args, code, out, errs)
		}
	}
	two := []string{"of workspace shop", "not of other"}
	refused(two, "--from", whole, "--workspace", "other")
	refused([]string{"not of default"}, "--from", whole, "--workspace", "default")
	taken("--from", whole)
	taken("--from", whole, "--workspace", "shop")
	t.Setenv("HENCE_WORKSPACE", "other")
	refused(two, "--from", whole)
	taken("--from", whole, "--workspace", "shop")
	t.Setenv("HENCE_WORKSPACE", "shop")
	taken("--from", whole)
	nothing := bundled(t, new(noRecords))
	refused([]string{"the log has no decision of a workspace shop: is it the right name"}, "--from", nothing)
}

// TestSignKeyOfOthers holds that a key that others can read does not sign.
func TestSignKeyOfOthers(t *testing.T) {
	text, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	path := inFile(t, "sign.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
	with := sealing{SignKey: path}
	if _, err := with.load(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := with.load(); err == nil || !strings.Contains(err.Error(), "run chmod 600 "+path) ||
		!strings.Contains(err.Error(), "key file") {
		t.Errorf("a key that a group can read: %v", err)
	}
}
