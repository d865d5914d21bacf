package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// The parts are run from their options rather than as commands: each command
// installs the signal handler of its process, and a process has only one.

// auditPolicy records who wrote what, without the objects.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

func (c *controlPlane) runAPIServer(ctx context.Context) error {
	args := []string{
		"--etcd-servers=" + etcdSocket,
		fmt.Sprintf("--secure-port=%d", c.port),
		"--bind-address=" + c.bindAddress,
		"--advertise-address=" + c.advertiseAddress,
		"--cert-dir=" + filepath.Join(c.dir, "certs"),
		"--client-ca-file=" + c.pkiFile("ca.crt"),
		"--tls-cert-file=" + c.pkiFile("apiserver.crt"),
		"--tls-private-key-file=" + c.pkiFile("apiserver.key"),
		"--kubelet-client-certificate=" + c.pkiFile("apiserver-kubelet.crt"),
		"--kubelet-client-key=" + c.pkiFile("apiserver-kubelet.key"),
		// Names of nodes cannot be resolved.
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-key-file=" + c.pkiFile("sa.key"),
		"--service-account-signing-key-file=" + c.pkiFile("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=" + strings.Join(c.serviceCIDRs, ","),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
	}
	if netip.MustParseAddr(c.advertiseAddress).IsLoopback() {
		// Endpoints may not be loopback addresses.
		args = append(args, "--endpoint-reconciler-type=none")
	}
	if c.noControllers {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if c.auditLog != "" {
		policy := filepath.Join(c.dir, "audit-policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return fmt.Errorf("write the audit policy: %w", err)
		}
		// Blocking: what a client has done is in the file soon after it is
		// answered, and nothing is dropped. Maxsize (MB): never rotated.
		args = append(args, "--audit-policy-file="+policy, "--audit-log-path="+c.auditLog,
			"--audit-log-mode=blocking", "--audit-log-maxsize=100000")
	}
	options := apiserveroptions.NewServerRunOptions()
	if err := parse(options.Flags(), append(args, c.apiServerArgs...)); err != nil {
		return err
	}
	if err := options.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(options.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	completed, err := options.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	return apiserver.Run(ctx, completed)
}

func (c *controlPlane) runControllerManager(ctx context.Context) error {
	args := []string{
		"--kubeconfig=" + c.pkiFile("controller-manager.kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file=" + c.pkiFile("sa.key"),
		"--root-ca-file=" + c.pkiFile("ca.crt"),
		"--service-cluster-ip-range=" + strings.Join(c.serviceCIDRs, ","),
		// The default of 20 requests a second would slow tests down.
		"--kube-api-qps=500", "--kube-api-burst=1000",
	}
	if len(c.clusterCIDRs) > 0 {
		args = append(args, "--allocate-node-cidrs=true", "--cluster-cidr="+strings.Join(c.clusterCIDRs, ","))
		for _, cidr := range c.clusterCIDRs {
			prefix, err := netip.ParsePrefix(cidr)
			if err != nil {
				return fmt.Errorf("parse cluster CIDR: %w", err)
			}
			switch {
			case len(c.clusterCIDRs) == 1 && prefix.Addr().Is4():
				args = append(args, "--node-cidr-mask-size=24")
			case len(c.clusterCIDRs) == 1:
				args = append(args, "--node-cidr-mask-size=64")
			case prefix.Addr().Is4():
				args = append(args, "--node-cidr-mask-size-ipv4=24")
			default:
				args = append(args, "--node-cidr-mask-size-ipv6=64")
			}
		}
	}
	options, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := controllermanager.KnownControllers(), controllermanager.ControllersDisabledByDefault(), controllermanager.ControllerAliases()
	flags := options.Flags(known, disabled, aliases)
	options.ParsedFlags = &flags
	if err := parse(flags, append(args, c.controllerManagerArgs...)); err != nil {
		return err
	}
	if err := options.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	config, err := options.Config(ctx, known, disabled, aliases)
	if err != nil {
		return err
	}
	return controllermanager.Run(ctx, config.Complete())
}

func (c *controlPlane) runScheduler(ctx context.Context) error {
	args := []string{
		"--kubeconfig=" + c.pkiFile("scheduler.kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
	}
	options := scheduleroptions.NewOptions()
	if err := parse(*options.Flags, append(args, c.schedulerArgs...)); err != nil {
		return err
	}
	if err := options.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	config, sched, err := scheduler.Setup(ctx, options)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx, config, sched)
}

// waitReady returns once the API server says that it is ready.
func (c *controlPlane) waitReady(ctx context.Context) error {
	ca, err := os.ReadFile(c.pkiFile("ca.crt"))
	if err != nil {
		return fmt.Errorf("read the CA: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "kubernetes"}},
		Timeout:   5 * time.Second,
	}
	defer client.CloseIdleConnections()
	address := netip.MustParseAddr(c.bindAddress)
	if address.IsUnspecified() {
		address = netip.MustParseAddr("127.0.0.1")
	}
	url := fmt.Sprintf("https://%s/readyz", netip.AddrPortFrom(address, c.port))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (c *controlPlane) pkiFile(name string) string { return filepath.Join(c.pki, name) }

func parse(sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	return all.Parse(args)
}
