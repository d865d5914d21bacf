package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox/kubeovn"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/script"
)

// What "migrate" says about clusters with what other systems leave there. In testdata,
// files that end with .yaml are objects; others are commands, and what they print.
func TestMigrate(t *testing.T) {
	theRig.InstallMetalLB(t, rig.BareMetalLBCRDs()...)
	t.Cleanup(func() { theRig.RemoveMetalLB(t) })
	installKubeDC(t)
	script.Sections(t, func() script.Section {
		began := false
		return func(t *testing.T, name, text string) string {
			t.Helper()
			if !began {
				newWorld(t)
			}
			began = true
			if strings.HasSuffix(name, ".yaml") {
				apply(t, text)
				return text
			}
			if doc, _ := run(t, append(strings.Fields(name), "-o", "yaml")...); strings.Contains(doc, "hunter22") {
				t.Errorf("a password is in\n%s", doc)
			}
			got, code := run(t, strings.Fields(name)...)
			return fmt.Sprintf("%sexit %d\n", clock.ReplaceAllString(got, "facts of TIME"), code)
		}
	})
}

// installKubeDC makes the kinds of kube-dc and kube-ovn, until the test ends.
func installKubeDC(t *testing.T) {
	t.Helper()
	crds := kubeovn.CRDs()
	theRig.InstallMetalLB(t, crds...)
	t.Cleanup(func() {
		for _, crd := range crds {
			rig.Eventually(t, crd.Name+" is gone", func() error {
				switch err := theRig.Client.Delete(context.Background(), crd); {
				case err == nil:
					return errors.New("it is still there")
				case !apierrors.IsNotFound(err):
					return err
				}
				return nil
			})
		}
	})
}

// apply makes objects, and removes them when the test ends. They are younger than those
// of earlier calls.
func apply(t *testing.T, text string) {
	t.Helper()
	called := time.Now().Truncate(time.Second)
	rig.Eventually(t, "a second passes", func() error {
		if time.Now().Truncate(time.Second).Equal(called) {
			return errors.New("it has not")
		}
		return nil
	})
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if ns := o.GetNamespace(); ns != "" {
			create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
			create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}})
		}
		status, has := o.Object["status"]
		rig.Eventually(t, "create "+o.GetKind()+" "+o.GetName(), func() error {
			err := theRig.Client.Create(t.Context(), o)
			if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) { // its kind may be of the same text
				t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
			}
			return err
		})
		t.Cleanup(func() {
			err := theRig.Client.Delete(context.Background(), o, client.GracePeriodSeconds(0))
			if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				t.Error(err)
			}
			// Whoever has put a finalizer on it has ended, too.
			free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := theRig.Client.Patch(context.Background(), o, free); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				t.Error(err)
			}
		})
		if has {
			o.Object["status"] = status
			if err := theRig.Client.Status().Update(t.Context(), o); err != nil {
				t.Fatalf("status of %s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	}
}
