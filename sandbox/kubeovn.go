package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox/kubeovn"
)

// ProjectNamespace is that of the project which a cluster in OVN's network has. Its router
// is shalb-dev, with MAC address ae:d6:b9:e1:76:78 and 168.119.17.51 in the external
// network; vm1 and vm2 are 10.1.0.40 and 10.1.0.41.
const ProjectNamespace = "shalb-dev"

// KubeOVN is what [Cluster.Restart] takes for what stands in for kube-ovn-controller. As
// the real one does, it begins by deleting all load balancers that it does not know.
const KubeOVN = "kube-ovn"

// centralImage has OVN's programs for people.
const centralImage = "fairlead/ovn-central:dev"

// startProject starts what stands in for kube-ovn and gives it a project, unless it is
// there, with two VMs. It returns when the client host reaches the
// project's router.
func (c *Cluster) startProject(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	config, err := c.adminConfig()
	if err != nil {
		return err
	}
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), apiextensionsv1.AddToScheme(s)); err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: s})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	for _, crd := range slices.Concat(kubeovn.CRDs(), kubeovn.RuleCRDs()) {
		if err := api.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the CRD %s: %w", crd.Name, err)
		}
	}
	for _, o := range kubeovn.Central() {
		if err := createOnce(ctx, api, o); err != nil {
			return err
		}
	}
	for _, o := range kubeovn.Project() {
		if err := createOnce(ctx, api, o); err != nil {
			return err
		}
	}
	if err := c.startKubeOVN(); err != nil {
		return err
	}
	for i := range 2 {
		vm := VM{
			Name: fmt.Sprintf("vm%d", i+1), Node: c.nodes()[(i+1)%c.Nodes].name, Namespace: ProjectNamespace, Switch: ProjectNamespace + "-default",
			Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.1.0.%d/16", 40+i))}, Gateways: []netip.Addr{netip.MustParseAddr("10.1.0.1")}, Port: 31416,
		}
		if err := c.retry(ctx, func() error { return c.StartVM(ctx, vm) }); err != nil {
			return err
		}
	}
	if err := c.retry(ctx, func() error {
		_, err := c.Nbctl(ctx, "lrp-get-gateway-chassis", ProjectNamespace+"-ext-public")
		return err
	}); err != nil {
		return fmt.Errorf("wait for the router's gateway: %w; %s", err, logTail(c.kubeOVNLog()))
	}
	if _, err = c.Nbctl(ctx, "--wait=hv", "sync"); err != nil {
		return err
	}
	// Chassis agree on who of them is the gateway, which takes a moment more.
	return c.retry(ctx, func() error {
		_, err := c.run(ctx, ClientHost, nil, "ping", "-c", "1", "-W", "1", "168.119.17.51")
		return err
	})
}

// retry repeats what fails until what it waits for is there.
func (c *Cluster) retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		if pause(ctx) != nil {
			return err
		}
	}
}

// createOnce creates an object, with its status, unless it is there. Its kind may still
// be new to the API server.
func createOnce(ctx context.Context, api client.Client, o *unstructured.Unstructured) error {
	for {
		wanted := o.DeepCopy()
		err := api.Create(ctx, wanted)
		switch {
		case apierrors.IsAlreadyExists(err):
			return nil
		case err == nil:
			status, has := o.Object["status"]
			if !has {
				return nil
			}
			wanted.Object["status"] = status
			return api.Status().Update(ctx, wanted)
		case !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err), pause(ctx) != nil:
			return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

func (c *Cluster) kubeOVNPID() (int, error) {
	return c.find(ControlHost, func(p process) bool { return slices.Contains(p.args, KubeOVN) })
}

func (c *Cluster) kubeOVNLog() string { return c.path("ovn", "kube-ovn.log") }

// kubeOVNConfig is the kubeconfig of what stands in for kube-ovn.
func (c *Cluster) kubeOVNConfig() string { return c.path("pki", "kube-ovn.kubeconfig") }

func (c *Cluster) startKubeOVN() error {
	pid, err := c.kubeOVNPID()
	if err != nil || pid != 0 {
		return err
	}
	_, err = detached{
		netns: c.netns(ControlHost), log: c.kubeOVNLog(),
		argv: []string{c.path("bin", "sandbox"), KubeOVN, "--kubeconfig=" + c.kubeOVNConfig(), "--northbound=" + c.northboundSockets()},
	}.start()
	return err
}

// centralPrograms are in the image of ovn-central.
var centralPrograms = []string{"ovn-nbctl", "ovn-sbctl"}

// makeCentralImage makes an image with OVN's programs.
func (c *Cluster) makeCentralImage(ctx context.Context) error {
	image := Image{Ref: centralImage, Entrypoint: []string{"/guest", "pause"}, Files: []ImageFile{{Path: "/guest", Source: c.path("bin", "guest")}}}
	for _, name := range centralPrograms {
		if err := image.AddProgram(ctx, "/usr/bin/"+name, name); err != nil {
			return err
		}
	}
	return image.WriteFile(c.path("images", "ovn-central.tar"))
}
