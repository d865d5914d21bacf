package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// cloudSteps put Fairlead into a cluster in a cloud, as the manual of the cloud's
// own controller manager does with that one: a Secret with the access token, then
// a DaemonSet on the control plane, which runs while all nodes are still tainted.
// The web server of examples/ follows when they are not.
func (i *installation) cloudSteps() []installStep {
	return []installStep{
		{"access token of the cloud", i.storeToken},
		{"image of Fairlead", i.loadImage},
		{helmStep, i.buildHelm},
		{"Fairlead as cloud controller manager", i.installInCloud},
		{"nodes initialised by it", i.awaitInitialized},
		{"examples", func(ctx context.Context, note io.Writer) error { return i.applyExamples(ctx, note, webExample) }},
		{"an answer from the example", i.awaitAnswer},
	}
}

// installInCloud installs the chart with the cloud's values.
func (i *installation) installInCloud(ctx context.Context, note io.Writer) error {
	return i.helm(ctx, note, "upgrade", "--install",
		"fairlead", "charts/fairlead", "--namespace", metav1.NamespaceSystem,
		"--set", strings.Join(clouds[i.cluster.Cloud].Values(i.cluster.site()), ","),
		"--set", "clusterName="+i.cluster.Name,
		"--set", "image.tag="+i.tag, "--wait", "--timeout", "5m")
}

// awaitInitialized waits until every node is known in the cloud, and takes pods.
func (i *installation) awaitInitialized(ctx context.Context, note io.Writer) error {
	for _, n := range i.cluster.nodes() {
		if err := i.kubectl(ctx, note, "wait", "node/"+n.name, "--for", "jsonpath={.spec.providerID}", "--timeout", "5m"); err != nil {
			return err
		}
	}
	return i.kubectl(ctx, note, "get", "nodes", "--output", "wide", "--label-columns", "topology.kubernetes.io/zone,node.kubernetes.io/instance-type")
}

// storeToken makes the Secret that the cloud's controller manager reads.
func (i *installation) storeToken(ctx context.Context, _ io.Writer) error {
	token, err := os.ReadFile(i.cluster.cloudToken())
	if err != nil {
		return fmt.Errorf("read the cloud's token: %w", err)
	}
	config, err := i.cluster.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	name, data := clouds[i.cluster.Cloud].Credentials(strings.TrimSpace(string(token)))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, StringData: data}
	secrets := client.CoreV1().Secrets(secret.Namespace)
	_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("store the cloud's token: %w", err)
	}
	return nil
}

func (i *installation) tellNextInCloud() {
	cloud := clouds[i.cluster.Cloud]
	fmt.Fprintf(i.cluster.Progress, `
The nodes are servers of a simulated %[5]s. Fairlead is its cloud controller
manager, and the Service "web" answers at %[1]s. Try:

  export KUBECONFIG=%[2]s PATH=%[3]s:$PATH
%[6]s "kubectl fairlead ui" shows
it live in a browser on this machine. "%[4]s down" removes the cluster and lists what is
left of Services that you did not delete.
`, i.address, i.cluster.Kubeconfig(), i.cluster.path("bin"), i.sandboxCommand(), cloud.Title(), cloud.Hints(i.address, i.sandboxCommand()))
}
