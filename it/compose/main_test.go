// Package compose runs the compose files: images, policy, TLS, and what they watch.
package compose

import (
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
