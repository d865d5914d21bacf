package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/client"
	"fairlead.io/test/kit/daemons"
	kit "fairlead.io/test/kit/site"
)

// serverPort is where the server that Services lead to listens.
const serverPort = kit.ServerPort

// lan is a sandbox with real nodes, a controller beside them and agents on them:
// all processes of the real binary in the hosts' namespaces, so that they can be
// killed and followed by others at any moment. What Services lead to is a server
// beside the cluster, so that no pod dies with a node.
type lan struct {
	daemons.Daemons // whose cluster is nil: not up
	lock            net.Listener
	nodes           []string
	api             kube.WithWatch
	server          net.Listener
	controller      *daemons.Process

	cloud   string   // of a sandbox in a cloud: which
	routers string   // see sandbox.Cluster
	env     []string // of the controller
	// pools of addresses by the namespace that they are for; nil: those of the LAN for
	// "default", and others for our own.
	pools map[string][]v1alpha1.Span
}

// up starts everything but the agents, once.
func (l *lan) up(ctx context.Context, s settings) (err error) {
	if l.Cluster != nil {
		return nil
	}
	// One at a time; the lock is a socket without a file, and goes with the process.
	err = poll(ctx, "another bench ends", time.Second, func() (bool, error) {
		l.lock, err = net.Listen("unix", "@fairlead-bench")
		return err == nil, ctx.Err()
	})
	if err != nil {
		return err
	}
	l.Cluster = &sandbox.Cluster{Name: "fairlead-bench", Progress: io.Discard, Cloud: l.cloud, Routers: l.routers}
	l.nodes, l.Agents = []string{"node1", "node2", "node3"}, map[string]*daemons.Agent{}
	if err := l.Cluster.Down(ctx); err != nil { // of a bench that was killed
		return err
	}
	if l.Scratch, err = os.MkdirTemp("", "fairlead-bench"); err != nil {
		return err
	}
	l.Binary = filepath.Join(l.Scratch, "fairlead") // one that stays the same meanwhile
	program, err := os.ReadFile(s.binary)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.Binary, program, 0o755); err != nil {
		return err
	}
	progress("  starting a sandbox of three nodes")
	if err := l.Cluster.Up(ctx); err != nil {
		return err
	}
	if err := l.connect(); err != nil {
		return err
	}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	if err := l.serve(); err != nil {
		return err
	}
	if l.cloud != "" {
		return nil // its controller needs more
	}
	return l.control(ctx)
}

// control starts a controller.
func (l *lan) control(ctx context.Context, args ...string) (err error) {
	l.controller, err = l.Control(ctx, l.env, args...)
	return err
}

// down ends everything, whatever became of it.
func (l *lan) down(ctx context.Context) (err error) {
	if l.Cluster == nil {
		return nil
	}
	for _, a := range l.Agents {
		err = errors.Join(err, a.Kill())
	}
	if l.controller != nil {
		l.controller.Stop(new(error))
	}
	if l.server != nil {
		err = errors.Join(err, l.server.Close())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(err, l.Cluster.Down(ctx), os.RemoveAll(l.Scratch), l.lock.Close())
}

// connect makes a client for us and a kubeconfig for programs on the hosts.
func (l *lan) connect() (err error) {
	if l.Kubeconfig, err = daemons.WriteKubeconfig(l.Cluster, l.Scratch); err != nil {
		return err
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			return err
		}
	}
	rest, err := l.Cluster.RESTConfig()
	if err != nil {
		return err
	}
	l.api, err = kube.NewWithWatch(rest, kube.Options{Scheme: kinds})
	return err
}

// prepare makes our kinds, a namespace, and pools of addresses.
func (l *lan) prepare(ctx context.Context) error {
	for _, crd := range charts.CRDs() {
		if err := l.api.Create(ctx, crd); err != nil {
			return err
		}
	}
	if err := l.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	if l.pools == nil {
		l.pools = map[string][]v1alpha1.Span{
			metav1.NamespaceDefault: {"10.77.0.200-10.77.0.219", "fd77::200-fd77::219"},
			namespace:               {"10.78.0.0/16", "fd78::/112"},
		}
	}
	for in, addresses := range l.pools {
		pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: in}, Spec: v1alpha1.PoolSpec{Addresses: addresses, Namespaces: []string{in}}}
		err := pollFor(ctx, time.Minute, "the API server knows our kinds", 100*time.Millisecond, func() (bool, error) {
			return l.api.Create(ctx, pool) == nil, ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// serve greets and hangs up.
func (l *lan) serve() error {
	err := l.Cluster.In(sandbox.ControlHost, func() (err error) {
		l.server, err = net.Listen("tcp", fmt.Sprintf(":%d", serverPort))
		return err
	})
	if err != nil {
		return err
	}
	go client.Serve(l.server)
	return nil
}
