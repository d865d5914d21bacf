package snapshot

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// maxLog is how much of each log is in a bundle, from its end.
const maxLog = 2 << 20

// redacted stands for what may be secret.
const redacted = "REDACTED"

// Bundle writes an archive for a bug report: the answers of all commands, the objects
// that they are made from, and the logs of Fairlead's pods. It reads no Secret. Values of
// variables and flags that may be secret, and annotations of others, are redacted.
func (s *Snapshot) Bundle(ctx context.Context, kube kubernetes.Interface, out io.Writer) error {
	zip := gzip.NewWriter(out)
	w := &bundle{tar: tar.NewWriter(zip), at: s, secrets: secretsOf(s.Pods)}
	w.document("status.yaml", s.Status())
	w.document("ip.yaml", s.Addresses(Listing{ByNamespace: true}))
	if s.Survey != nil {
		for i := range s.Survey.Services {
			of := &s.Survey.Services[i]
			if state := s.stateOf(of).State; state == Waiting || state == Unreachable {
				w.document(fmt.Sprintf("why/%s_%s.yaml", of.Key.Namespace, of.Key.Name), s.WhyService(of.Key))
			}
		}
	}
	w.document("configuration.yaml", s.Config)
	for _, list := range s.objects.lists {
		w.objects(list)
	}
	for i := range s.Pods {
		w.logs(ctx, kube, &s.Pods[i])
	}
	if len(w.failed) > 0 {
		w.file("missing.txt", []byte(strings.Join(w.failed, "\n")+"\n"))
	}
	if w.err == nil {
		w.err = w.tar.Close()
	}
	if w.err == nil {
		w.err = zip.Close()
	}
	return w.err
}

// bundle is an archive while it is written.
type bundle struct {
	tar     *tar.Writer
	at      *Snapshot
	secrets []string // values that must not be in it
	failed  []string // what could not be read
	err     error
}

// file adds a file.
func (b *bundle) file(name string, data []byte) {
	if b.err != nil {
		return
	}
	data = []byte(redact(string(data), b.secrets))
	if b.err = b.tar.WriteHeader(&tar.Header{Name: "fairlead-bundle/" + name, Mode: 0o644, Size: int64(len(data)), ModTime: b.at.At}); b.err == nil {
		_, b.err = b.tar.Write(data)
	}
}

func (b *bundle) document(name string, of any) {
	data, err := yaml.Marshal(of)
	if err != nil {
		b.err = err
		return
	}
	b.file(name, data)
}

// objects adds a list. Of Services, those of type LoadBalancer are in it.
func (b *bundle) objects(list client.ObjectList) {
	var kept []runtime.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.DeepCopyObject().(client.Object)
		if service, is := object.(*corev1.Service); is && service.Spec.Type != corev1.ServiceTypeLoadBalancer || !ok {
			return nil
		}
		strip(object)
		kept = append(kept, object)
		return nil
	})
	if err != nil {
		b.err = err
		return
	}
	name := strings.ToLower(strings.TrimSuffix(fmt.Sprintf("%T", list), "List"))
	b.document("objects/"+name[strings.LastIndex(name, ".")+1:]+"s.yaml", kept)
}

// logs adds the end of a pod's logs, also those of the process before.
func (b *bundle) logs(ctx context.Context, kube kubernetes.Interface, p *corev1.Pod) {
	for _, previous := range []bool{false, true} {
		restarted := slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
		if previous && !restarted {
			continue
		}
		data, err := kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Previous: previous, LimitBytes: ptr.To[int64](maxLog), TailLines: ptr.To[int64](20000)}).DoRaw(ctx)
		if err != nil {
			b.failed = append(b.failed, fmt.Sprintf("cannot read the log of pod %s/%s: %v", p.Namespace, p.Name, err))
			continue
		}
		name := "logs/" + p.Name + ".log"
		if previous {
			name = "logs/" + p.Name + ".previous.log"
		}
		b.file(name, data)
	}
}

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
	if p, ok := o.(*corev1.Pod); ok {
		for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range containers {
				stripContainer(&containers[i])
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

// secretNames are parts of the names of variables and flags whose values may be secret. The
// list of BGP peers in kube-vip's words has their passwords.
var secretNames = regexp.MustCompile(`(?i)token|pass|secret|credential|key|client-id|client_id|auth|user|^bgp_peers$`)

func mayBeSecret(name string) bool { return secretNames.MatchString(name) }

// secretsOf returns the values of such variables and flags: they must be nowhere in a
// bundle, not even in a log.
func secretsOf(pods []corev1.Pod) []string {
	found := map[string]bool{}
	for i := range pods {
		for _, c := range pods[i].Spec.Containers {
			for _, e := range c.Env {
				if mayBeSecret(e.Name) {
					found[e.Value] = true
				}
			}
			args := slices.Concat(c.Command, c.Args)
			for i, arg := range args {
				if name, value, given := strings.Cut(arg, "="); given && mayBeSecret(name) {
					found[value] = true
				} else if i > 0 && !strings.Contains(args[i-1], "=") && strings.HasPrefix(args[i-1], "--") && mayBeSecret(args[i-1]) {
					found[arg] = true
				}
			}
		}
	}
	// Short ones are no secrets, and would spoil the text.
	return slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(v string) bool { return len(v) < 6 })
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
