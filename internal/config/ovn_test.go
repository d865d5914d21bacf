package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead.io/internal/lb"
)

const ovnHead = "apiVersion: fairlead.io/v1alpha1\nkind: Configuration\n"

func TestOVN(t *testing.T) {
	c, err := Parse([]byte(ovnHead + "classes: [{name: \"\", backend: ovn}, {name: lan, backend: ovn, pools: [native]}, {name: l2}]\novn: {northbound: [\"unix:/run/ovn/ovnnb_db.sock\", \"tcp:[::1]:6641\"], eips: use}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Classes[0].Pools) != 0 || !slices.Equal(c.Classes[1].Pools, []lb.Dialect{lb.Native}) || c.OVN.EIps != UseEIps || !c.Uses(lb.Native) {
		t.Errorf("%+v", c)
	}
	if c, err := Parse([]byte(ovnHead + "classes: [{name: \"\", backend: ovn}]\n")); err != nil || c.OVN.EIps != ServeEIps {
		t.Errorf("by default: %v, %v", c, err)
	}
}

// Flags and variables that name the classes of announced addresses leave those of OVN
// alone: MetalLB's class and kube-dc's Services are in one cluster.
func TestOVNBesideOthers(t *testing.T) {
	c, err := Parse([]byte(ovnHead + "classes: [{name: \"\", backend: ovn}, {name: lan, backend: ovn, pools: [native]}, {name: l2}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for who, only := range map[string]func(string) (*Configuration, error){
		`--lb-class`:     c.OnlyClass,
		`$lb_class_name`: func(name string) (*Configuration, error) { return c.OnlyKubeVIPClasses([]string{name}) },
	} {
		got, err := only("metallb")
		if err != nil || len(got.Classes) != 3 || got.Class("metallb").Backend != Announce || got.Class("").Backend != OVN || got.Class("lan").Backend != OVN || got.Class("l2") != nil {
			t.Errorf("%s is metallb: %+v, %v", who, got, err)
		}
		want := who + ` is "lan", but the configuration has this class with backend "ovn"; choose another class for one of them`
		if got, err := only("lan"); err == nil || err.Error() != want {
			t.Errorf("%s is lan: %+v, %v, want %s", who, got, err, want)
		}
	}
}

func TestOVNRefused(t *testing.T) {
	for file, want := range map[string]string{
		`{northbound: ["tpc:db:6641"]}`:           `ovn.northbound[0]: endpoint "tpc:db:6641" is not of the kind unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT`,
		`{northbound: ["tcp:db:6641", "tcp:db"]}`: `ovn.northbound[1]: endpoint "tcp:db" is not tcp:HOST:PORT`,
		`{northbound: ["ssl:db:0"]}`:              `ovn.northbound[0]: endpoint "ssl:db:0": "0" is not a port`,
		`{northbound: ["unix:db.sock"]}`:          `the path of a unix socket must be absolute`,
		`{eips: both}`:                            `ovn.eips "both" is unknown; available: "serve", "use"`,
		`{key: /key}`:                             `ovn.certificate and ovn.key belong together`,
		`{nothbound: []}`:                         `unknown field "nothbound"`,
	} {
		if _, err := Parse([]byte(ovnHead + "ovn: " + file + "\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

// pair writes a certificate and its key, and returns their paths.
func pair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

func TestEndpoints(t *testing.T) {
	certificate, key := pair(t)
	_, other := pair(t)
	whole := OVNOptions{CA: certificate, Certificate: certificate, Key: key}
	for name, test := range map[string]struct {
		options OVNOptions
		env     string
		want    []string
		wantErr string
	}{
		"kube-ovn's":                      {want: []string{"tcp:ovn-nb.kube-system.svc:6641"}},
		"those of the environment":        {env: "tcp:a:1, unix:/x", want: []string{"tcp:a:1", "unix:/x"}},
		"those of the file count more":    {options: OVNOptions{Northbound: []string{" tcp:b:2 "}}, env: "tcp:a:1", want: []string{"tcp:b:2"}},
		"a bad environment":               {env: "tcp:a:1,,", wantErr: `$OVN_NB_DB: endpoint "" is not of the kind`},
		"TLS":                             {options: whole, env: "ssl:a:1", want: []string{"ssl:a:1"}},
		"TLS without files":               {env: "ssl:a:1", wantErr: "ovn.ca, ovn.certificate and ovn.key: TLS needs the files of a CA, a certificate and a key"},
		"a CA that is not there":          {options: OVNOptions{CA: "/nowhere/ca", Certificate: certificate, Key: key}, env: "ssl:a:1", wantErr: "read CA: open /nowhere/ca: no such file"},
		"a CA that is none":               {options: OVNOptions{CA: key, Certificate: certificate, Key: key}, env: "ssl:a:1", wantErr: "has no certificate"},
		"a certificate that is not there": {options: OVNOptions{CA: certificate, Certificate: "/nowhere/cert", Key: key}, env: "ssl:a:1", wantErr: "read certificate and key: open /nowhere/cert"},
		"a key of something else":         {options: OVNOptions{CA: certificate, Certificate: certificate, Key: other}, env: "ssl:a:1", wantErr: "read certificate and key: tls: private key does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.options.Endpoints(func(string) string { return test.env })
			switch {
			case test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)):
				t.Errorf("%v, want %s", err, test.wantErr)
			case test.wantErr == "" && (err != nil || fmt.Sprint(got) != fmt.Sprint(test.want)):
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
