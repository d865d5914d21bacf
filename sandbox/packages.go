package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"fairlead.io/sandbox/router"
)

type debianPackage struct{ name, program string }

// nodePackages are the Debian packages of what nodes run besides Kubernetes,
// each with a file that tells that it is there.
var nodePackages = []debianPackage{
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"iproute2", "ip"},
	{"iptables", "iptables"}, // for the CNI plugin portmap
	{"nftables", "nft"},
	{"conntrack", "conntrack"},
	{"util-linux", "nsenter"},
	{"mount", "mount"},
	{"curl", "curl"}, // for people, on the client host
	{"containernetworking-plugins", ""},
}

// ovnPackages are those of OVN's central part and of chassis.
var ovnPackages = []debianPackage{
	{"ovn-central", "ovn-northd"},
	{"ovn-host", "ovn-controller"},
	{"openvswitch-switch", "ovs-vswitchd"},
	{"ethtool", "ethtool"},
	{"iputils-ping", "ping"},
	{"net-tools", "arp"}, // for people, on the client host
}

// packageServices are the services that packages would start with the machine.
var packageServices = map[string]string{
	"containerd": "containerd.service", "frr": "frr.service", "bird2": "bird.service",
	"ovn-central": "ovn-central.service", "ovn-host": "ovn-host.service", "openvswitch-switch": "openvswitch-switch.service",
}

func routerPackages() []debianPackage {
	var all []debianPackage
	for _, p := range router.Packages {
		all = append(all, debianPackage{p.Name, p.Program})
	}
	return all
}

// cniDirs are where distributions put the CNI plugins.
var cniDirs = []string{"/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"}

// cniDir returns the directory with the CNI plugins, or "" if there is none.
func cniDir() string {
	for _, dir := range cniDirs {
		if _, err := os.Stat(dir + "/host-local"); err == nil {
			return dir
		}
	}
	return ""
}

func missingPackages(wanted []debianPackage) []string {
	var missing []string
	for _, p := range wanted {
		if p.program == "" {
			if cniDir() == "" {
				missing = append(missing, p.name)
			}
			continue
		}
		if _, err := exec.LookPath(p.program); err != nil {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// installPackages installs what is missing, on Debian and its children.
func (c *Cluster) installPackages(ctx context.Context, note io.Writer) error {
	wanted := nodePackages
	if c.Network == OVN {
		wanted = slices.Concat(wanted, ovnPackages)
	}
	if c.Routers != "" {
		wanted = slices.Concat(wanted, routerPackages())
	}
	missing := missingPackages(wanted)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install the packages %s (here named as in Debian): %w", strings.Join(missing, ", "), err)
	}
	allow, err := forbidServices()
	if err != nil {
		return err
	}
	defer allow()
	fmt.Fprintln(note, "apt-get install", strings.Join(missing, " "))
	if err := aptGet(ctx, note, append([]string{"install", "--no-install-recommends"}, missing...)...); err != nil {
		// The lists may be absent or out of date.
		if err := aptGet(ctx, note, "update"); err != nil {
			return err
		}
		if err := aptGet(ctx, note, append([]string{"install", "--no-install-recommends"}, missing...)...); err != nil {
			return err
		}
	}
	if still := missingPackages(wanted); len(still) > 0 {
		return fmt.Errorf("install packages: %s still missing", strings.Join(still, ", "))
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil
	}
	for _, name := range missing {
		service := packageServices[name]
		if service == "" {
			continue
		}
		if err := exec.CommandContext(ctx, "systemctl", "disable", service).Run(); err != nil {
			return fmt.Errorf("disable the unused service %s: %w", service, err)
		}
	}
	return nil
}

func aptGet(ctx context.Context, note io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-y", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	var output strings.Builder
	both := io.MultiWriter(note, &output)
	cmd.Stdout, cmd.Stderr = both, both // the same, so that nobody writes both at once
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, tailOf(strings.Split(strings.TrimSpace(output.String()), "\n")))
	}
	return nil
}

// forbidServices keeps packages from starting their services while they are
// installed, in the way Debian has for it.
func forbidServices() (allow func(), err error) {
	const policy = "/usr/sbin/policy-rc.d"
	f, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil // the administrator has decided
	}
	if err != nil {
		return nil, fmt.Errorf("keep services from starting: %w", err)
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("keep services from starting: %w", err), os.Remove(policy))
	}
	return func() { os.Remove(policy) }, nil
}
