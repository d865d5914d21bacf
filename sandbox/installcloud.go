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

// cloudSteps put into a cluster in a cloud what a cloud controller manager
// needs: the image of one, and the Secret that its manual asks for. The nodes
// stay tainted until one is installed.
func (i *installation) cloudSteps() []installStep {
	return []installStep{
		{"access token of the cloud", i.storeToken},
		{"image of Fairlead", i.loadImage},
	}
}

// storeToken makes the Secret kube-system/cloudscale.
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
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: Cloudscale},
		StringData: map[string]string{"access-token": strings.TrimSpace(string(token))},
	}
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
	fmt.Fprintf(i.cluster.Progress, `
The nodes are servers of a simulated cloudscale.ch, and tainted until its cloud
controller manager looks after them. Its access token is in the Secret
kube-system/cloudscale, its API at http://%[1]s for pods and nodes, and Fairlead's
image on every node is fairlead/fairlead:%[2]s. Try:

  export KUBECONFIG=%[3]s PATH=%[4]s:$PATH
  kubectl get nodes --output custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key,ID:.spec.providerID
  %[5]s cloud GET /v1/servers
  %[5]s cloud GET /sandbox/log

docs/guides/sandbox.md tells more. "%[5]s down" ends it.
`, cloudAddress(), i.tag, i.cluster.Kubeconfig(), i.cluster.path("bin"), i.sandboxCommand())
}
