package tables

import (
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
