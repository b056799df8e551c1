package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// Keys are public keys by their names (topology.LogSealKey).
type Keys map[sequencer.Hash]ed25519.PublicKey

const needsEd25519 = "Ed25519 is needed, openssl genpkey -algorithm ed25519 makes one"

// TrustedKeys reads the public keys of a file: PEM blocks "PUBLIC KEY", one after the other, as openssl writes them.
func TrustedKeys(text []byte) (Keys, error) {
	keys := Keys{}
	block, rest := pem.Decode(text)
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("a PEM block %q: give public keys only, openssl pkey -pubout writes one", block.Type)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read a public key: %w", err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("a public key is %T: %s", parsed, needsEd25519)
		}
		keys[topology.LogSealKey(key)] = key
	}
	if len(keys) > 0 && bytes.Contains(rest, []byte("-----BEGIN")) {
		return nil, errors.New("a PEM block at the end cannot be read: the file was cut short, or a key in it is damaged")
	}
	if len(keys) == 0 {
		return nil, errors.New("no PEM block PUBLIC KEY: openssl pkey -in sign.pem -pubout writes one")
	}
	return keys, nil
}

// SigningKey reads a private key: a PEM block "PRIVATE KEY" (PKCS #8), as openssl genpkey -algorithm ed25519 writes.
func SigningKey(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("no PEM block PRIVATE KEY: openssl genpkey -algorithm ed25519 makes one")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the private key is %T: %s", parsed, needsEd25519)
	}
	return key, nil
}
