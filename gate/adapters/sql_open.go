//go:build !hence_postgres

package adapters

import (
	"database/sql"
	"errors"
)

// openPostgres is what a build without the driver has.
func openPostgres(string, *secrets) (*sql.DB, error) {
	return nil, errors.New("this build has no PostgreSQL driver: build it with -tags hence_postgres")
}
