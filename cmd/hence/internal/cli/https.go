package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// https is how the sidecar's own listener speaks TLS.
type https struct {
	TLSCert string `name:"tls-cert" type:"path" placeholder:"FILE" help:"Certificate file; plain HTTP is then refused."`
	TLSKey  string `name:"tls-key" type:"path" placeholder:"FILE" help:"Key file of --tls-cert."`
}

// load reads certificate and key; nil: plain HTTP.
func (h https) load() (*tls.Config, error) {
	if h.TLSCert == "" && h.TLSKey == "" {
		return nil, nil
	}
	if h.TLSCert == "" || h.TLSKey == "" {
		return nil, misused(errors.New("--tls-cert and --tls-key go together: give both files or neither"))
	}
	pair, err := tls.LoadX509KeyPair(h.TLSCert, h.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("read --tls-cert and --tls-key, PEM files of one certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
