package snapshot

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/config"
)

// redacted stands for what may be secret.
const redacted = "REDACTED"

// lastApplied has whole objects, with all their values.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// strip takes out of an object what may be secret, and what nobody needs.
func strip(o client.Object) {
	o.SetManagedFields(nil)
	kept := map[string]string{}
	for key, value := range o.GetAnnotations() {
		switch {
		case key == lastApplied:
		case slices.Contains(annotations, key) || strings.HasPrefix(key, oldPrefix):
			kept[key] = value
		default:
			kept[key] = redacted
		}
	}
	if len(kept) > 0 || len(o.GetAnnotations()) > 0 {
		o.SetAnnotations(kept)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		for _, containers := range [][]corev1.Container{o.Spec.InitContainers, o.Spec.Containers} {
			for i := range containers {
				stripContainer(&containers[i])
			}
		}
	case *unstructured.Unstructured:
		eachPassword(o.Object, func(string) string { return redacted })
	}
}

// eachPassword replaces each password in the fields of an object, such as spec.password of
// BGPPeers of all versions. A value may be of any type: these kinds keep everything.
func eachPassword(fields map[string]any, replace func(string) string) {
	for name, value := range fields {
		switch value := value.(type) {
		case map[string]any:
			eachPassword(value, replace)
		case []any:
			for _, item := range value {
				if below, is := item.(map[string]any); is {
					eachPassword(below, replace)
				}
			}
		case nil:
		default:
			if strings.Contains(strings.ToLower(name), "password") {
				fields[name] = replace(fmt.Sprint(value))
			}
		}
	}
}

// WithoutSecrets returns a container whose variables and flags have no secrets.
func WithoutSecrets(c corev1.Container) corev1.Container {
	out := c.DeepCopy()
	stripContainer(out)
	return *out
}

// stripContainer redacts variables and flags that may be secret.
func stripContainer(c *corev1.Container) {
	for i := range c.Env {
		if mayBeSecret(c.Env[i].Name) && c.Env[i].Value != "" {
			c.Env[i].Value = redacted
		}
	}
	for _, args := range [][]string{c.Command, c.Args} {
		for i, arg := range args {
			if name, _, given := strings.Cut(arg, "="); given && mayBeSecret(name) {
				args[i] = name + "=" + redacted
			} else if i > 0 && !strings.Contains(args[i-1], "=") && strings.HasPrefix(args[i-1], "--") && mayBeSecret(args[i-1]) {
				args[i] = redacted
			}
		}
	}
}

// envPeers is the variable with the list of BGP peers in kube-vip's format.
const envPeers = "bgp_peers"

// secretNames are parts of the names of variables and flags whose values may be secret. The
// list of BGP peers in kube-vip's words has their passwords.
var secretNames = regexp.MustCompile(`(?i)token|pass|secret|credential|key|client-id|client_id|auth|user|^bgp_peers$`)

func mayBeSecret(name string) bool { return secretNames.MatchString(name) }

// secrets are values that must be nowhere in a bundle, not even in a log.
func (s *Snapshot) secrets() []string {
	found := secretsOf(s.Pods)
	for i := range s.Nodes {
		found = append(found, annotatedSecrets(s.Nodes[i].Annotations)...)
	}
	for _, list := range s.objects.lists {
		all, _ := list.(*unstructured.UnstructuredList)
		if all == nil {
			continue
		}
		for i := range all.Items {
			eachPassword(all.Items[i].DeepCopy().Object, func(password string) string {
				found = append(found, password)
				return password
			})
		}
	}
	// Short ones are no secrets, and would spoil the text. A longer one goes first: another may
	// be a part of it.
	found = slices.DeleteFunc(found, func(v string) bool { return len(v) < 6 })
	slices.SortFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(found)
}

// annotatedSecrets are the passwords in the annotations of a Node, such as that of BGP peers in
// kube-vip's format, which is in base64.
func annotatedSecrets(annotations map[string]string) (out []string) {
	for key, value := range annotations {
		if _, name, _ := strings.Cut(key, "/"); !strings.Contains(name, "pass") {
			continue
		}
		out = append(out, value)
		if text, err := base64.StdEncoding.DecodeString(value); err == nil {
			out = append(out, string(text))
		}
	}
	return out
}

// secretsOf returns the values of variables and flags that may be secret.
func secretsOf(pods []corev1.Pod) (out []string) {
	for i := range pods {
		for _, c := range slices.Concat(pods[i].Spec.InitContainers, pods[i].Spec.Containers) {
			for _, e := range c.Env {
				if mayBeSecret(e.Name) {
					out = append(out, e.Value)
				}
				if strings.EqualFold(e.Name, envPeers) {
					out = append(out, listedPasswords(e.Value)...)
				}
			}
			args := slices.Concat(c.Command, c.Args)
			for i, arg := range args {
				if name, value, given := strings.Cut(arg, "="); given && mayBeSecret(name) {
					out = append(out, value)
				} else if i > 0 && !strings.Contains(args[i-1], "=") && strings.HasPrefix(args[i-1], "--") && mayBeSecret(args[i-1]) {
					out = append(out, arg)
				}
			}
		}
	}
	return out
}

// listedPasswords are those in a list of BGP peers in kube-vip's format. What cannot be read
// as a peer may have one in any place but the first two.
func listedPasswords(list string) (out []string) {
	for entry := range strings.SplitSeq(list, ",") {
		theirs, err := config.KubeVIPBGPFrom([]string{"bgp_enable=true", envPeers + "=" + entry})
		if err != nil || theirs == nil {
			parts := strings.Split(entry, ":")
			out = append(out, parts[min(2, len(parts)):]...)
			continue
		}
		for i := range theirs.Peers {
			out = append(out, theirs.Peers[i].Password)
		}
	}
	return out
}

// tokens are secrets that are recognised by how they look.
var tokens = regexp.MustCompile(`(?i)(bearer|basic)\s+[\w.~+/=-]{8,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----`)

// redact replaces secrets in a text.
func redact(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return tokens.ReplaceAllString(text, redacted)
}
