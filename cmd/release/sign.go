package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"fairlead.io/cmd/release/oci"
)

// How cosign stores a signature: an image beside the one that is signed, with what was
// signed as its layer.
const (
	mediaSigned         = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
)

// signingKey reads the key from the environment: a P-256 key in PEM, not encrypted.
func signingKey(getenv func(string) string) (*ecdsa.PrivateKey, error) {
	const name = "FAIRLEAD_SIGNING_KEY"
	text := getenv(name)
	if text == "" {
		return nil, errors.New(name + " is not set. Set it to a private key in PEM, such as \"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256\" makes")
	}
	bad := errors.New(name + " is not a private P-256 key in PEM without a passphrase") // an error must not show any of it
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, bad
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	}
	ec, is := key.(*ecdsa.PrivateKey)
	if err != nil || !is || ec.Curve != elliptic.P256() {
		return nil, bad
	}
	return ec, nil
}

// sign signs everything that upload uploads, into a layout of its own, and the checksums
// of the files for those who download them. Signing again with the same key gives the same
// signatures.
func sign(dist string, getenv func(string) string, log io.Writer) error {
	key, err := signingKey(getenv)
	if err != nil {
		return err
	}
	dir, remove, err := scratch()
	if err != nil {
		return err
	}
	defer remove()
	b, err := openDist(dist, dir)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	target := filepath.Join(dist, signaturesDir)
	made := target + ".new" // put there when it is complete
	if err := os.RemoveAll(made); err != nil {
		return err
	}
	layout, err := oci.NewLayout(made)
	if err != nil {
		return err
	}
	for _, p := range b.parts {
		d, err := signManifest(layout, key, p.artifact)
		if err != nil {
			return err
		}
		if err := layout.Tag(d, p.Digest); err != nil {
			return err
		}
		fmt.Fprintf(log, "Signed %s@%s\n", p.Name, p.Digest)
	}
	sums, err := os.ReadFile(filepath.Join(dist, filesDir, sumsFile))
	if err != nil {
		return err
	}
	signature, err := signBytes(key, sums)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		sumsFile + ".sig": []byte(signature + "\n"),
		"fairlead.pub":    pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	} {
		if err := oci.WriteFile(filepath.Join(made, name), content); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.Rename(made, target); err != nil {
		return err
	}
	fmt.Fprintf(log, "Signed %s: %s\n", sumsFile, filepath.Join(target, sumsFile+".sig"))
	return nil
}

// signManifest stores the signature of something in a registry.
func signManifest(l oci.Layout, key *ecdsa.PrivateKey, a artifact) (oci.Descriptor, error) {
	var signed struct {
		Critical struct {
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
		Optional map[string]string `json:"optional"`
	}
	signed.Critical.Identity.Reference, signed.Critical.Image.Digest = a.Name, a.Digest
	signed.Critical.Type = "cosign container image signature"
	payload, err := json.Marshal(signed)
	if err != nil {
		return oci.Descriptor{}, err
	}
	signature, err := signBytes(key, payload)
	if err != nil {
		return oci.Descriptor{}, err
	}
	layer, err := l.Add(mediaSigned, payload)
	if err != nil {
		return oci.Descriptor{}, err
	}
	layer.Annotations = map[string]string{signatureAnnotation: signature}
	config, err := l.Add(oci.MediaConfig, []byte(`{"architecture":"","os":"","config":{},"rootfs":{"type":"layers","diff_ids":["`+layer.Digest+`"]}}`))
	if err != nil {
		return oci.Descriptor{}, err
	}
	return l.AddJSON(oci.MediaManifest, oci.Manifest{SchemaVersion: 2, MediaType: oci.MediaManifest, Config: config, Layers: []oci.Descriptor{layer}})
}

// signBytes is an ECDSA signature of the SHA-256 sum, as openssl and cosign check it. It
// is deterministic (RFC 6979).
func signBytes(key *ecdsa.PrivateKey, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	signature, err := key.Sign(nil, sum[:], crypto.SHA256)
	return base64.StdEncoding.EncodeToString(signature), err
}
