package kubedc

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/ovsdb"
	"fairlead.io/internal/placement"
	"fairlead.io/internal/setup"
	"fairlead.io/sandbox"
	standin "fairlead.io/sandbox/kubeovn"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/script"
)

// TestStories tells in scripts what users of kube-dc see: see the package comment.
func TestStories(t *testing.T) {
	t.Parallel()
	kube, err := sandbox.KubeBinary(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	r, cache, metrics := useRig(t), t.TempDir(), rig.FreeAddress(t)
	script.Tell(t, testscript.Params{Files: stories(t), Cmds: commands(kube)}, func(t *testing.T, env *testscript.Env) error {
		env.Setenv("KUBECONFIG", r.API.Kubeconfig)
		env.Setenv("KUBECACHEDIR", cache)
		env.Setenv("HOME", env.WorkDir)
		s := newStory(t, r)
		s.metrics = metrics
		env.Values[storyKey{}] = s
		s.installKinds()
		s.clean()
		s.makeProject()
		s.makeNetwork()
		env.Setenv("NB", s.nb.Endpoint())
		s.runKubeOVN()
		if err := s.start(nil); err != nil {
			return err
		}
		for _, project := range []string{"shalb-dev", "shalb-prod"} {
			rig.Eventually(t, project+" is served", func() error { return s.has([]string{"eip", project + "/default-gw", `"ready":true`}) })
		}
		return nil
	})
}

// stories are the scripts. With -shuffle, as for tests, nobody knows which comes first.
func stories(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if f := flag.Lookup("test.shuffle"); f != nil && f.Value.String() != "off" {
		rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		t.Logf("stories in this order: %v", files)
	}
	return files
}

type storyKey struct{}

func newStory(t *testing.T, r *rig.Rig) *story {
	t.Helper()
	return &story{t: t, rig: r, client: newClient(t, r)}
}

// story is one script at work.
type story struct {
	t       *testing.T
	rig     *rig.Rig
	client  client.Client
	metrics string // address
	stop    func() // the controller

	ovn    *standin.Allocator
	nb     *northbound.Server
	northd *process.Process

	mu     sync.Mutex
	writes []string // what controllers have written: method and path
	marked int
}

// defaultConfig has classes with kube-dc's EIps, and one with pools.
const defaultConfig = `
apiVersion: fairlead.io/v1alpha1
kind: Configuration
clusterName: c1
classes:
- {name: "", backend: ovn}
- {name: pooled, backend: ovn, pools: [native]}
- {name: lan, backend: announce}
`

// start starts a controller.
func (s *story) start(args []string) error {
	c, err := config.Parse([]byte(defaultConfig))
	if err != nil {
		return err
	}
	services := controller.Backend{Resync: 5 * time.Minute}
	flags := flag.NewFlagSet("controller start", flag.ContinueOnError)
	flags.Func("config", "", func(path string) (err error) { c, err = config.Load(path); return err })
	flags.BoolVar(&services.DryRun, "dry-run", false, "")
	patience := flags.Duration("patience", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	endpoint, err := ovsdb.ParseEndpoint(s.nb.Endpoint())
	if err != nil {
		return err
	}
	s.stop = s.rig.Start(s.t, func(o *controller.Options) {
		o.Config, o.MetricsAddress = c, s.metrics
		o.REST.Wrap(s.count)
		setup.Add(o, setup.Names{MetalLBNamespace: rig.MetalLBNamespace})
		if e := setup.AddOVN(o, c.ClusterName, []ovsdb.Endpoint{endpoint}, services, func(o *placement.Options) { o.Patience = *patience }); e != nil {
			err = e
		}
	})
	return err
}

// count notes what controllers write.
func (s *story) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			s.mu.Lock()
			s.writes = append(s.writes, r.Method+" "+r.URL.Path)
			s.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// runKubeOVN allocates addresses until the story ends.
func (s *story) runKubeOVN() {
	var err error
	if s.ovn, err = standin.New(s.rig.API.RESTConfig()); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.ovn.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("kube-ovn: %v", err)
		}
	})
}

// makeNetwork has the document's router, with one switch inside and its gateway outside.
func (s *story) makeNetwork() {
	s.nb = northbound.Start(s.t)
	s.nb.Ctl("init")
	s.northd = s.nb.Northd()
	s.router("shalb-dev", "10.0.0.1/16", "168.119.17.51/28")
	s.router("shalb-prod", "10.1.0.1/16", "168.119.17.50/28")
}

func (s *story) router(name, inside, outside string) {
	port := name + "-ext-public"
	s.nb.Ctl("lr-add", name, "--", "ls-add", name+"-default",
		"--", "lrp-add", name, name+"-"+name+"-default", "02:00:00:00:00:01", inside,
		"--", "lrp-add", name, port, "ae:d6:b9:e1:76:78", outside, "--", "lrp-set-gateway-chassis", port, "ch1")
}

// makeProject has the objects of the document's project, and of another one.
func (s *story) makeProject() {
	public := externalSubnet("ext-public", "public", "168.119.17.48/28", "168.119.17.49")
	public.Spec.ExcludeIPs = []string{"168.119.17.50"}
	objects := []client.Object{public, externalSubnet("ext-cloud", "cloud", "100.64.0.0/24", "100.64.0.1")}
	for _, name := range []string{"shalb-dev", "shalb-prod", "nowhere", "annotated"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	gateway := func(vpc, address string) []client.Object {
		return []client.Object{
			&kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: vpc}, Spec: kubeovn.VpcSpec{Namespaces: []string{vpc}, EnableExternal: true, ExtraExternalSubnets: []string{"ext-public"}}},
			&kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: vpc + "-ext-public"}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext-public", Type: kubeovn.TypeRouterPort, V4IP: address}},
			&api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: vpc, Name: "default-gw"}, Spec: api.EIpSpec{ChildRef: vpc + "-ext-public"}},
		}
	}
	objects = append(objects, gateway("shalb-dev", "168.119.17.51")...)
	objects = append(objects, gateway("shalb-prod", "168.119.17.50")...)
	for _, o := range objects {
		if err := s.client.Create(context.Background(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			s.t.Fatal(err)
		}
	}
}

func externalSubnet(name, kind, cidr, gateway string) *kubeovn.Subnet {
	return &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"network.kube-dc.com/external-network-type": kind}},
		Spec: kubeovn.SubnetSpec{CIDRBlock: cidr, Gateway: gateway, Vlan: "v"}}
}

// lists are of all kinds of kube-dc and kube-ovn.
func lists() []client.ObjectList {
	return []client.ObjectList{&api.EIpList{}, &api.FIpList{}, &api.ProjectList{}, &kubeovn.OvnEipList{}, &kubeovn.SubnetList{}, &kubeovn.VpcList{}, &kubeovn.OvnDnatRuleList{}}
}

// installKinds installs kube-dc's and kube-ovn's kinds, unless they are there.
func (s *story) installKinds() {
	rig.Eventually(s.t, "install the kinds", func() error {
		for _, crd := range standin.CRDs() {
			if err := s.rig.Client.Create(context.Background(), crd); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		for _, l := range lists() {
			if err := s.client.List(context.Background(), l); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeKinds removes them, with all objects.
func (s *story) removeKinds() {
	s.empty(lists()...)
	rig.Eventually(s.t, "remove the kinds", func() error {
		for _, crd := range standin.CRDs() {
			if err := s.rig.Client.Delete(context.Background(), crd); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %w", crd.Name, errors.Join(err, errors.New("it is there")))
			}
		}
		return nil
	})
}

// clean leaves nothing of the story before.
func (s *story) clean() {
	s.rig.Clean(s.t)
	s.empty(append(lists(), &corev1.EndpointsList{}, &discoveryv1.EndpointSliceList{})...)
	rig.Eventually(s.t, "namespaces say nothing", func() error {
		var list corev1.NamespaceList
		if err := s.client.List(context.Background(), &list); err != nil {
			return err
		}
		for i := range list.Items {
			if o := &list.Items[i]; len(o.Annotations) > 0 {
				o.Annotations = nil
				if err := s.client.Update(context.Background(), o); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// empty removes all objects of some kinds, but for what the API server itself makes,
// whatever keeps them.
func (s *story) empty(kinds ...client.ObjectList) {
	ctx := context.Background()
	rig.Eventually(s.t, "no object is left", func() error {
		left := 0
		for _, l := range kinds {
			if err := s.client.List(ctx, l); err != nil {
				return err
			}
			for _, o := range itemsOf(l) {
				if o.GetNamespace() == metav1.NamespaceDefault && o.GetName() == "kubernetes" {
					continue
				}
				left++
				if len(o.GetFinalizers()) > 0 {
					if err := s.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
						return err
					}
				}
				if err := s.client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
		}
		if left > 0 {
			return fmt.Errorf("%d are left", left)
		}
		return nil
	})
}

// named says whether a name is like a pattern such as slb-web-*.
func named(pattern string, o client.Object) bool {
	name := o.GetName()
	if strings.Contains(pattern, "/") {
		name = o.GetNamespace() + "/" + name
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
