package snapshot

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// maxLog is how much of each log is in a bundle, from its end.
const maxLog = 2 << 20

// Bundle writes an archive for a bug report: the answers of all commands, the objects
// that they are made from, and the logs of Fairlead's pods. It reads no Secret. Values of
// variables and flags that may be secret, passwords of BGP peers, and annotations of others,
// are redacted. It returns what is missing in the archive because it could not be read.
func (s *Snapshot) Bundle(ctx context.Context, kube kubernetes.Interface, out io.Writer) (missing []string, err error) {
	zip := gzip.NewWriter(out)
	w := &bundle{tar: tar.NewWriter(zip), at: s, secrets: s.secrets(), failed: slices.Clone(s.Unknown)}
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
	return w.failed, w.err
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
	kept := []runtime.Object{}
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
	b.document("objects/"+resourceOf(list)+".yaml", kept)
}

// resourceOf is the plural of a list's kind. Lists without a Go type of their own say what it is.
func resourceOf(list client.ObjectList) string {
	kind := list.GetObjectKind().GroupVersionKind().Kind
	if _, is := list.(*unstructured.UnstructuredList); !is {
		kind = reflect.TypeOf(list).Elem().Name()
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: strings.TrimSuffix(kind, "List")})
	return plural.Resource
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
