// Package outages ends, replaces and upgrades brokers, NATS, processors and sidecars under load.
package outages

import (
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
