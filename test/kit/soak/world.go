package soak

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/test/kit/daemons"
	"fairlead.io/test/kit/invariant"
	"fairlead.io/test/kit/site"
)

const (
	namespace, othersNamespace = "soak", "soak-others"
	poolName                   = "soak"
	steady                     = 4 // Services with traffic
)

// Addresses of the pool, and those that are left when it is made smaller: none that the
// first Services get.
var (
	allAddresses = []v1alpha1.Span{"10.77.0.200-10.77.0.215", "fd77::200-fd77::20f"}
	upperHalf    = []v1alpha1.Span{"10.77.0.208-10.77.0.215", "fd77::208-fd77::20f"}
)

func poolSpec() v1alpha1.PoolSpec {
	return v1alpha1.PoolSpec{Addresses: allAddresses, Namespaces: []string{namespace, othersNamespace}, Order: v1alpha1.Ascending, Sharing: v1alpha1.SharingAllowed}
}

// service is one with traffic, whose addresses must stay.
type service struct {
	name  string
	addrs []netip.Addr
}

func (s *service) object() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.name}}
}

func (s *service) texts() (out []string) {
	for _, a := range s.addrs {
		out = append(out, a.String())
	}
	return out
}

func (w *world) addresses() (out []netip.Addr) {
	for _, s := range w.services {
		out = append(out, s.addrs...)
	}
	return out
}

func (w *world) ports() (out []netip.AddrPort) {
	for _, a := range w.addresses() {
		out = append(out, netip.AddrPortFrom(a, 80))
	}
	return out
}

// open makes what is needed: kinds, a pool, Services, controllers and agents.
func (w *world) open(ctx context.Context) error {
	var objects []kube.Object
	for _, crd := range charts.CRDs() {
		objects = append(objects, crd)
	}
	for _, ns := range []string{namespace, othersNamespace} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	objects = append(objects, &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: poolName}, Spec: poolSpec()})
	for _, o := range objects {
		err := site.Await(ctx, settling, func() error {
			if err := w.api.Create(ctx, o); !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i := range replicas {
		r := &replica{world: w, number: i}
		w.replicas = append(w.replicas, r)
		if err := r.start(); err != nil {
			return err
		}
	}
	if err := w.Run(ctx, w.nodes...); err != nil {
		return err
	}
	for i := range steady {
		s, err := w.newService(ctx, fmt.Sprintf("web-%d", i))
		if err != nil {
			return err
		}
		w.services = append(w.services, s)
	}
	return nil
}

// newService makes a Service that leads to the server beside the cluster, and waits for
// its addresses.
func (w *world) newService(ctx context.Context, name string) (*service, error) {
	s := site.DualStack(namespace, name)
	if err := w.api.Create(ctx, s); err != nil {
		return nil, err
	}
	for _, slice := range site.Endpoints(s) {
		if err := w.api.Create(ctx, slice); err != nil {
			return nil, err
		}
	}
	out := &service{name: name}
	err := site.Await(ctx, settling, func() error {
		if err := w.api.Get(ctx, kube.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if out.addrs = kubeapi.Service(s).Published(); len(out.addrs) != 2 {
			return fmt.Errorf("%s has the addresses %v", name, out.addrs)
		}
		return nil
	})
	w.check.Due(namespace+"/"+name, out.addrs...)
	return out, err
}

// close ends everything that open has begun.
func (w *world) close(ctx context.Context) (err error) {
	for _, r := range w.replicas {
		r.stop()
	}
	for _, a := range w.Agents {
		if a.Alive() { // a stopped one, too
			err = errors.Join(err, a.Signal(syscall.SIGCONT), a.End(ctx, syscall.SIGTERM))
		}
	}
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: poolName}}
	return errors.Join(err, kube.IgnoreNotFound(w.api.Delete(ctx, pool)), site.Await(ctx, site.Long, func() error { return w.gone(ctx) }))
}

// gone deletes the namespaces, and fails while they are there.
func (w *world) gone(ctx context.Context) error {
	for _, name := range []string{namespace, othersNamespace} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := w.api.Delete(ctx, ns); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s is not gone yet (%w)", name, err)
		}
	}
	return nil
}

// replicas is how many controllers there are.
const replicas = 2

// crashed is the exit code of a Go program that panics.
const crashed = 2

// replica is a controller that is started again when it ends, as kubelet does.
type replica struct {
	world  *world
	number int

	mu      sync.Mutex
	process *daemons.Process
	ended   bool // for good
	waiting sync.WaitGroup
}

func (w *world) replica(pick uint32) *replica { return w.replicas[int(pick)%len(w.replicas)] }

// address is where the metrics are, on the host of the control plane.
func (r *replica) address() string { return fmt.Sprintf("127.0.0.1:%d", 28080+r.number) }

func (r *replica) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	p, err := r.world.Control(context.Background(), nil, "--leader-elect", "--leader-elect-namespace", metav1.NamespaceSystem, "--metrics-address", r.address())
	if err != nil {
		return err
	}
	r.process = p
	r.waiting.Go(func() { r.again(p.Cmd) })
	return nil
}

// again waits until the controller has ended, and starts another one.
func (r *replica) again(cmd *exec.Cmd) {
	err := cmd.Wait()
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	if ended {
		return
	}
	r.world.check.Note(time.Now(), fmt.Sprintf("controller %d has ended (%v)", r.number, err))
	if cmd.ProcessState.ExitCode() == crashed {
		r.world.check.Broken(time.Now(), invariant.Other, fmt.Sprintf("controller %d has crashed", r.number))
	}
	pause(context.Background(), time.Second)
	if err := r.start(); err != nil {
		r.world.check.Broken(time.Now(), invariant.Other, fmt.Sprintf("start controller %d: %v", r.number, err))
	}
}

func (r *replica) signal(s syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.process.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (r *replica) stop() {
	r.mu.Lock()
	r.ended = true
	if r.process != nil {
		_ = r.process.Cmd.Process.Kill()
	}
	r.mu.Unlock()
	r.waiting.Wait()
}

// logs are the last lines of all logs that were written lately.
func (w *world) logs() string {
	const lately, lines = 15 * time.Second, 6
	var out strings.Builder
	files, _ := filepath.Glob(filepath.Join(w.Scratch, "*.log"))
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || time.Since(info.ModTime()) > lately {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		all := slices.Collect(strings.Lines(string(text)))
		fmt.Fprintf(&out, "The last of %s:\n%s", filepath.Base(file), strings.Join(all[max(0, len(all)-lines):], ""))
	}
	return out.String()
}
