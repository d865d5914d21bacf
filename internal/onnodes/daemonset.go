package onnodes

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	label = "app.kubernetes.io/name"
	// Name of the label's value, and the beginning of the names of DaemonSets.
	name = "fairlead-check"
	// deadline is the annotation that says when a DaemonSet has no use any more.
	deadline = "fairlead.io/deadline"
	// unpublished is the repository of images that no registry has: nodes have them, or not.
	unpublished = "fairlead.invalid/"
)

// Command is the command of "fairlead" that pods run.
const Command = "check-node"

// Peer is a node, as pods are told of it.
type Peer struct{ Node, Address string }

// Peers are all, as an argument.
func joinPeers(all []Peer) string {
	var out []string
	for _, p := range all {
		out = append(out, p.Node+"="+p.Address)
	}
	return strings.Join(out, ",")
}

// daemonSet is what is made. Its pods have the network of their node and the right to use
// nftables, as agents have, no token of the API server, and no files of the node.
func daemonSet(o Options, peers []Peer, nonce string) *appsv1.DaemonSet {
	labels := map[string]string{label: name}
	pull := corev1.PullIfNotPresent
	if strings.HasPrefix(o.Image, unpublished) {
		pull = corev1.PullNever
	}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, GenerateName: name + "-", Labels: labels,
			Annotations: map[string]string{deadline: time.Now().Add(o.Wait).UTC().Format(time.RFC3339)},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{label: name, "fairlead.io/check": nonce}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: name, "fairlead.io/check": nonce}},
				Spec: corev1.PodSpec{
					HostNetwork: true, DNSPolicy: corev1.DNSDefault,
					AutomountServiceAccountToken:  ptr.To(false),
					TerminationGracePeriodSeconds: ptr.To[int64](1),
					NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
					Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{
						Name: name, Image: o.Image, ImagePullPolicy: pull,
						Args: []string{
							Command, "--node=$(NODE_NAME)", "--peers=" + joinPeers(peers), "--nonce=" + nonce,
							fmt.Sprintf("--gossip-port=%d", o.Port), "--for=" + (o.Wait / 2).String(),
						},
						Env:                      []corev1.EnvVar{{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
						TerminationMessagePolicy: corev1.TerminationMessageReadFile,
						Resources:                corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), RunAsUser: ptr.To[int64](0),
							Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN"}},
							SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
						},
					}},
				},
			},
		},
	}
}
