// Package order holds that a workspace has one order: decisions, tables, chains and events that all agree.
package order

import (
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
