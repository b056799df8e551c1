// Package console works the console in a real browser: by keyboard, under load, and at every width.
package console

import (
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
