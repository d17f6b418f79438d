package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// validator answers whether an object may be written: always yes, and late if the fault is on.
type validator struct {
	faults *registry
}

func (v *validator) Handle(ctx context.Context, _ admission.Request) admission.Response {
	if f, on := v.faults.on("WebhookSlow", "", "", ""); on {
		select {
		case <-time.After(f.duration("delay")):
		case <-ctx.Done():
		}
	}
	return admission.Allowed("")
}

// webhookServer returns the server of the webhook, with a new certificate.
func (c config) webhookServer() (webhook.Server, error) {
	if c.webhookPort == 0 {
		return webhook.NewServer(webhook.Options{}), nil
	}
	if err := c.writeCertificate(); err != nil {
		return nil, err
	}
	return webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: c.webhookPort, CertDir: c.webhookCertDir}), nil
}

// writeCertificate writes a certificate that is its own authority.
func (c config) writeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{
		SerialNumber:          big.NewInt(1),
		DNSNames:              []string{c.webhookHost},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.webhookCertDir, 0o700); err != nil {
		return err
	}
	if err := writePEM(filepath.Join(c.webhookCertDir, "tls.key"), "PRIVATE KEY", encoded); err != nil {
		return err
	}
	return writePEM(filepath.Join(c.webhookCertDir, "tls.crt"), "CERTIFICATE", certificate)
}

func writePEM(path, kind string, bytes []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}
