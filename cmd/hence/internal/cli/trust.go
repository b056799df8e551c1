package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// trust is whom a client believes that a sidecar's certificate is its own.
type trust struct {
	CA string `name:"ca" type:"path" placeholder:"FILE" help:"PEM file of who else may sign the sidecar's certificate."`
}

// client is an HTTP client that trusts whom the system trusts, and those of the file.
func (t trust) client() (*http.Client, error) {
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, MaxIdleConns: 64, MaxIdleConnsPerHost: 64,
		IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // a container may have none
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca: %s has no certificate in PEM form", t.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: doubtful{transport}}, nil
}

// doubtful says what to do about a certificate that nobody vouches for.
type doubtful struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (d doubtful) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.Transport.RoundTrip(r)
	if isUntrusted(err) {
		err = fmt.Errorf("%w: name the file of who signed it with --ca (HENCE_CA)", err)
	}
	return resp, err
}

func isUntrusted(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}
