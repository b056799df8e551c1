package adapters

import (
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// openPostgres makes a handle; nothing is sent yet. The reader's own error could hold a part of the secret.
func openPostgres(dsn string, s *secrets) (*sql.DB, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("its connection string cannot be read: write postgres://user:password@host/name")
	}
	s.hide(config.Password)
	return stdlib.OpenDB(*config), nil
}
