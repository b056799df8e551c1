package access

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

// Client is an HTTP client that trusts whom the system trusts, and those of a PEM file; "" names none.
func Client(ca string) (*http.Client, error) {
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, MaxIdleConns: 64, MaxIdleConnsPerHost: 64,
		IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // a container may have none
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca: %s has no certificate in PEM form", ca)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: doubtful{transport}}, nil
}

// doubtful says what to do about a certificate that no known authority signed.
type doubtful struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (d doubtful) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.Transport.RoundTrip(r)
	if IsUntrusted(err) {
		err = fmt.Errorf("%w: give the CA certificate file with --ca (HENCE_CA)", err)
	}
	return resp, err
}

// IsUntrusted says whether a request failed for a certificate by an unknown authority.
func IsUntrusted(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}
