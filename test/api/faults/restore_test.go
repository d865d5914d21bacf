package faults

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
)

// TestEtcdRestored puts etcd back to a backup under a running controller. Services that
// were made, changed or deleted since are as they were, resourceVersions begin again
// below those that the controller has seen, and addresses that it has assigned are
// assigned no longer. It finds out by itself, and assigns none of them twice.
func TestEtcdRestored(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.9.0.0/26")
	stop := theRig.Start(t)
	create(t, "before", 20)
	before := settled(t, "edge")
	// It has no address at the time of the backup, and gets one that is free then.
	stop()
	late := create(t, "late", 5)
	backup, err := theRig.API.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	theRig.Start(t)
	settled(t, "edge")

	// What the backup does not have: Services, deletions, addresses given again, a pool.
	for i := range 10 {
		if err := theRig.Client.Delete(t.Context(), newService(fmt.Sprintf("before-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	create(t, "lost", 30)
	settled(t, "edge")
	createPool(t, "lost", "10.9.1.0/26")
	for i := range 200 { // resourceVersions, so that it takes a while until these are reached again
		s := &corev1.Service{}
		if err := theRig.Client.Get(t.Context(), client.ObjectKeyFromObject(late[0]), s); err != nil {
			t.Fatal(err)
		}
		s.Annotations = map[string]string{"example.com/round": fmt.Sprint(i)}
		if err := theRig.Client.Update(t.Context(), s); err != nil && i == 0 {
			t.Fatal(err)
		}
	}

	if err := theRig.API.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	create(t, "after", 20)
	after := settled(t, "edge")
	if len(after) != 45 {
		t.Errorf("%d Services have an address, want 45", len(after))
	}
	for name, address := range before {
		if after[name] != address {
			t.Errorf("service %s had %s, has %s", name, address, after[name])
		}
	}
	if err := client.IgnoreNotFound(theRig.Client.Get(t.Context(), client.ObjectKey{Name: "lost"}, &v1alpha1.Pool{})); err != nil {
		t.Error(err)
	}
	// Nothing has leaked: the whole pool can be had, and not more.
	create(t, "rest", 64-len(after))
	settled(t, "edge")
}
