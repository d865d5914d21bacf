package carrypods

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backend "fairlead.io/internal/backend/cloudsigma"
	format "fairlead.io/internal/compat/cloudsigma"
)

const (
	// container has the name that scripts know from the original.
	container = "lb-config"
	// Arguments of fairlead carry.
	argAddress, argInterface = "--address", "--interface"
)

// compose makes the object of a pod. It has no access to the API server, and only the
// capabilities that it takes to add an address and to announce it.
func compose(p *backend.Pod) *corev1.Pod {
	command := []string{"/fairlead", "carry", argAddress, p.Address.String()}
	if p.Interface != "" {
		command = append(command, argInterface, p.Interface)
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: format.PodNamespace, Name: p.Name, Labels: map[string]string{
			format.LabelApp: format.PodApp, format.LabelAddress: format.LabelValue(p.Address)}},
		Spec: corev1.PodSpec{
			NodeName:                      p.Node,
			HostNetwork:                   true,
			RestartPolicy:                 corev1.RestartPolicyAlways,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			PriorityClassName:             "system-node-critical",
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: new(int64(5)),
			Containers: []corev1.Container{{
				Name:            container,
				Image:           p.Image,
				ImagePullPolicy: corev1.PullIfNotPresent,
				Command:         command,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("16Mi")}},
				SecurityContext: &corev1.SecurityContext{
					RunAsUser:                new(int64(0)),
					AllowPrivilegeEscalation: new(false),
					ReadOnlyRootFilesystem:   new(true),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}},
					SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
			}},
		},
	}
	if a, err := netip.ParseAddr(p.Service); err == nil {
		out.Labels[format.LabelService] = format.LabelValue(a)
	}
	return out
}

// read is the inverse of compose, as far as a pod is one of ours.
func read(pod *corev1.Pod) *backend.Pod {
	out := &backend.Pod{Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Service: pod.Labels[format.LabelService],
		Ended:   pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
		Leaving: pod.DeletionTimestamp != nil}
	if len(pod.Spec.Containers) != 1 {
		return out
	}
	c := &pod.Spec.Containers[0]
	out.Image = c.Image
	out.Address, _ = netip.ParseAddr(argument(c.Command, argAddress))
	out.Interface = argument(c.Command, argInterface)
	return out
}

func argument(command []string, name string) string {
	if i := slices.Index(command, name); i >= 0 && i+1 < len(command) {
		return command[i+1]
	}
	return ""
}
