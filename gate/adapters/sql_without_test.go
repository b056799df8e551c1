//go:build !hence_postgres

package adapters

import "testing"

// TestPostgres stands for the test against a real server in builds without the driver.
func TestPostgres(t *testing.T) {
	t.Skip("this build has no PostgreSQL driver: run it with -tags hence_postgres, and apt-get install -y postgresql")
}
