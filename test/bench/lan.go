package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/charts"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/client"
)

// serverPort is where the server that Services lead to listens.
const serverPort = 18080

// lan is a sandbox with real nodes, a controller beside them and agents on them:
// all processes of the real binary in the hosts' namespaces, so that they can be
// killed and followed by others at any moment. What Services lead to is a server
// beside the cluster, so that no pod dies with a node.
type lan struct {
	cluster    *sandbox.Cluster // nil: not up
	lock       net.Listener
	nodes      []string
	scratch    string // a directory that nodes see, too
	binary     string
	kubeconfig string // for programs on the hosts
	api        kube.WithWatch
	server     net.Listener
	controller *process
	agents     map[string]*nodeAgent
	ports      int // of the agents' health, that were given away

	// Of a sandbox in a cloud: which, and the configuration that controller and agents
	// have instead of the default one.
	cloud, config string
	routers       string   // see sandbox.Cluster
	env           []string // of the controller
	// pools of addresses by the namespace that they are for; nil: those of the LAN for
	// "default", and others for our own.
	pools map[string][]v1alpha1.Span
}

// up starts everything but the agents, once.
func (l *lan) up(ctx context.Context, s settings) (err error) {
	if l.cluster != nil {
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
	l.cluster = &sandbox.Cluster{Name: "fairlead-bench", Progress: io.Discard, Cloud: l.cloud, Routers: l.routers}
	l.nodes, l.agents = []string{"node1", "node2", "node3"}, map[string]*nodeAgent{}
	if err := l.cluster.Down(ctx); err != nil { // of a bench that was killed
		return err
	}
	if l.scratch, err = os.MkdirTemp("", "fairlead-bench"); err != nil {
		return err
	}
	l.binary = filepath.Join(l.scratch, "fairlead") // one that stays the same meanwhile
	program, err := os.ReadFile(s.binary)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.binary, program, 0o755); err != nil {
		return err
	}
	progress("  starting a sandbox of three nodes")
	if err := l.cluster.Up(ctx); err != nil {
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
func (l *lan) control(ctx context.Context, args ...string) error {
	args = slices.Concat([]string{l.binary, "controller", "--kubeconfig", l.kubeconfig}, l.configured(), args)
	cmd, err := l.cluster.ExecCommand(context.WithoutCancel(ctx), sandbox.ControlHost, args...)
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), l.env...)
	l.controller, err = launch(cmd, l.scratch)
	return err
}

// configured are the arguments of programs with another configuration than the default.
func (l *lan) configured() []string {
	if l.config == "" {
		return nil
	}
	return []string{"--config", l.config}
}

// down ends everything, whatever became of it.
func (l *lan) down(ctx context.Context) (err error) {
	if l.cluster == nil {
		return nil
	}
	for _, a := range l.agents {
		err = errors.Join(err, a.kill())
	}
	if l.controller != nil {
		l.controller.stop(new(error))
	}
	if l.server != nil {
		err = errors.Join(err, l.server.Close())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(err, l.cluster.Down(ctx), os.RemoveAll(l.scratch), l.lock.Close())
}

// connect makes a client for us and a kubeconfig for programs on the hosts.
func (l *lan) connect() error {
	config, err := clientcmd.LoadFromFile(l.cluster.Kubeconfig())
	if err != nil {
		return err
	}
	for _, c := range config.Clusters {
		c.Server = "https://10.77.0.1:6443"
	}
	l.kubeconfig = filepath.Join(l.scratch, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, l.kubeconfig); err != nil {
		return err
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			return err
		}
	}
	rest, err := l.cluster.RESTConfig()
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
	err := l.cluster.In(sandbox.ControlHost, func() (err error) {
		l.server, err = net.Listen("tcp", fmt.Sprintf(":%d", serverPort))
		return err
	})
	if err != nil {
		return err
	}
	go client.Serve(l.server)
	return nil
}
