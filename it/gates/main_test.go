// Package gates holds what is promised of tool calls: isolation, release, compensation, residue and retraction.
package gates

import (
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
