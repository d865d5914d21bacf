package sandbox

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// nodeConfig configures the first process of a node, as JSON.
type nodeConfig struct {
	Name      string         `json:"name"`
	StateDir  string         `json:"stateDir"` // of the cluster
	Cgroup    string         `json:"cgroup"`   // in every hierarchy
	CNIDir    string         `json:"cniDir"`
	Addresses []netip.Addr   `json:"addresses"`
	PodCIDRs  []netip.Prefix `json:"podCIDRs"`
	External  bool           `json:"external"` // a cloud's controller manager initialises the Node
	ProxyMode string         `json:"proxyMode"`
}

// Paths inside a node. Its /run, /var/lib, /var/log, /etc and /opt are its
// own; the rest is the machine's.
const (
	nodeState        = "/run/sandbox" // the cluster's directory
	containerdSocket = "/run/containerd/containerd.sock"
)

// writeConfigs writes the configuration of what runs on the node. It is called
// inside the node.
func (n nodeConfig) writeConfigs() error {
	cni, err := n.cni()
	if err != nil {
		return err
	}
	machineID := sha256.Sum256([]byte(n.StateDir + n.Name))
	for path, content := range map[string]string{
		"/etc/machine-id":                    fmt.Sprintf("%x\n", machineID[:16]),
		"/etc/hostname":                      n.Name + "\n",
		"/etc/hosts":                         "127.0.0.1 localhost\n::1 localhost\n" + n.Addresses[0].String() + " " + n.Name + "\n",
		"/etc/containerd/config.toml":        containerdConfig(),
		"/etc/cni/net.d/10-sandbox.conflist": cni,
		"/var/lib/kubelet/config.yaml":       kubeletConfig,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make directory of %s: %w", path, err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return nil
}

// restrict_oom_score_adj: containers may ask for a lower score than we may
// give, and would not start. The CRI plugin of containerd 1.6 needs the image
// of the pause container, which is imported rather than pulled.
func containerdConfig() string {
	return fmt.Sprintf(`version = 2
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`, fullRef(pauseImage))
}

// cni routes every pod over a link of its own: on a bridge, packets between
// pods of one node would pass the packet filter only with br_netfilter, which
// not every machine has loaded.
func (n nodeConfig) cni() (string, error) {
	type object = map[string]any
	var ranges [][]object
	routes := []object{}
	for _, cidr := range n.PodCIDRs {
		ranges = append(ranges, []object{{"subnet": cidr.String()}})
		everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if cidr.Addr().Is6() {
			everything = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		routes = append(routes, object{"dst": everything.String()})
	}
	content, err := json.MarshalIndent(object{
		"cniVersion": "0.4.0",
		"name":       "sandbox",
		"plugins": []object{
			{"type": "ptp", "ipMasq": false, "ipam": object{"type": "host-local", "ranges": ranges, "routes": routes}},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode CNI configuration: %w", err)
	}
	return string(content), nil
}

// The short lease lets the cluster see within seconds that a node is gone.
// Nothing is ever evicted or collected for lack of disk: the disk is shared
// with everything else on the machine.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://` + containerdSocket + `
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "100Mi", nodefs.available: "0%", imagefs.available: "0%"}
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 10
clusterDNS: ["10.96.0.10"]
clusterDomain: cluster.local
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: ` + nodeState + `/pki/ca.crt}
authorization: {mode: Webhook}
`

func (n nodeConfig) kubeletArgs() []string {
	addresses := make([]string, len(n.Addresses))
	for i, a := range n.Addresses {
		addresses[i] = a.String()
	}
	args := []string{nodeState + "/bin/kube", "kubelet",
		"--config=/var/lib/kubelet/config.yaml",
		"--kubeconfig=" + filepath.Join(nodeState, "nodes", n.Name, "kubelet.kubeconfig"),
		"--hostname-override=" + n.Name,
		"--node-ip=" + strings.Join(addresses, ","),
	}
	if n.External {
		args = append(args, "--cloud-provider=external")
	}
	return args
}

// The sizes of conntrack tables are the machine's, not the node's: kube-proxy
// must leave them alone.
func (n nodeConfig) proxyArgs() []string {
	return []string{nodeState + "/bin/kube", "kube-proxy",
		"--kubeconfig=" + filepath.Join(nodeState, "nodes", n.Name, "kube-proxy.kubeconfig"),
		"--hostname-override=" + n.Name,
		"--proxy-mode=" + n.ProxyMode,
		"--detect-local-mode=ClusterCIDR",
		"--cluster-cidr=" + join(podCIDRs[:len(n.PodCIDRs)]), // the same families
		"--conntrack-max-per-core=0",
		"--conntrack-tcp-timeout-established=0s",
		"--conntrack-tcp-timeout-close-wait=0s",
	}
}
