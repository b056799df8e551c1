package streams_test

import (
	"testing"

	"github.com/hence-dev/hence/streams/internal/teststreams"
)

func TestMain(m *testing.M) { teststreams.Main(m) }
