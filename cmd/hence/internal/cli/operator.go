package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// operatorTokenName is the operator's token in a sidecar's data folder. It is not beside the agent's token: that file
// is often on a volume which the agent reads.
const operatorTokenName = "operator-token"

// operators is how a sidecar is told what an operator must show.
type operators struct {
	OperatorToken     string `placeholder:"TEXT" help:"What an operator must show; by default in a file, as below."`
	OperatorTokenFile string `type:"path" placeholder:"FILE" help:"Made when missing; default: in the data folder."`
}

// obtainOperator settles the operator's token: the given one, the file's, or that of the file in the data folder.
// Without a folder it is empty, and the agent's token serves for both.
func (o operators) obtainOperator(logger *slog.Logger, dir string) (string, error) {
	switch {
	case o.OperatorToken != "" && o.OperatorTokenFile != "":
		return "", misused(errors.New("the operator's token is given twice: leave out --operator-token (or unset " +
			"HENCE_OPERATOR_TOKEN), or --operator-token-file"))
	case o.OperatorToken != "":
		return o.OperatorToken, nil
	case o.OperatorTokenFile != "":
		return keepToken(logger, o.OperatorTokenFile)
	case dir == "":
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the data folder: %w", err)
	}
	path := filepath.Join(dir, operatorTokenName)
	token, err := keepToken(slog.New(slog.DiscardHandler), path) // a new one is nothing to warn of
	if err == nil {
		logger.Info("who changes rules, retracts, or deals with residue shows the operator's token", "file", path)
	}
	return token, err
}

// operating is where a command finds the sidecar that it asks for what only an operator may do.
type operating struct {
	asking
	OperatorToken     string `placeholder:"TEXT" dev:"operator_token" help:"The operator's token; by default, the token."`
	OperatorTokenFile string `type:"path" placeholder:"FILE" help:"Read it from there, if none is given."`
}

// AfterApply reads the token's file, and shows the operator's token instead of the agent's.
func (o *operating) AfterApply() (err error) {
	if o.OperatorToken == "" && o.OperatorTokenFile != "" {
		if o.OperatorToken, err = readToken(o.OperatorTokenFile); err != nil {
			return err
		}
	}
	if o.OperatorToken != "" {
		o.Token = o.OperatorToken
	}
	return nil
}
