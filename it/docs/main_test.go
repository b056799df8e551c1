// Package docs keeps the documents true: each block of commands in them is run as it is printed, by a first reader.
package docs

import (
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
