package controller

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// poolStatusPause is the least time between two rounds of writing pools' status.
const poolStatusPause = time.Second

// poolConditionReady is the type of the condition on pools.
const poolConditionReady = "Ready"

// poolStatus writes each pool's numbers and reason into its status, some time
// after they changed, and never in the way of a Service.
type poolStatus struct {
	cache  client.Reader
	client client.Client
	ledger *ledger
	events *events
	log    *slog.Logger
	told   map[types.UID]lb.Reason
}

// Start writes until ctx ends.
func (p *poolStatus) Start(ctx context.Context) error {
	p.told = map[types.UID]lb.Reason{}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.ledger.touched:
		}
		if !p.writeAll(ctx) {
			p.ledger.touch() // again after the pause
		}
		pause.Reset(poolStatusPause)
	}
}

// writeAll says whether every pool's status is now as it should be.
func (p *poolStatus) writeAll(ctx context.Context) bool {
	done := true
	for _, u := range p.ledger.usage() {
		if u.Key.Dialect != lb.Native {
			continue
		}
		if err := p.write(ctx, u); err != nil && ctx.Err() == nil {
			p.log.Warn("pool status not written", "pool", u.Key.Name, "error", err)
			done = false
		}
	}
	return done
}

func (p *poolStatus) write(ctx context.Context, u ipam.PoolUsage) error {
	var pool v1alpha1.Pool
	if err := p.cache.Get(ctx, types.NamespacedName{Name: u.Key.Name}, &pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	want := statusOf(u, pool.Status.Conditions, time.Now())
	if !reflect.DeepEqual(want, pool.Status) {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{
			"total": want.Total, "used": want.Used, "free": want.Free,
			"families":   want.Families, // null, if there is none, removes them
			"conditions": want.Conditions,
		}})
		if err != nil {
			return err
		}
		err = p.client.Status().Patch(ctx, &pool, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(component))
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if told, known := p.told[pool.UID]; told != u.Reason && (known || u.Reason.Warning()) {
		p.events.add(corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Pool", Name: pool.Name, UID: pool.UID}, lb.Native, u.Reason)
	}
	p.told[pool.UID] = u.Reason
	return nil
}

// statusOf returns the status of a pool with usage u that has conditions now.
func statusOf(u ipam.PoolUsage, conditions []metav1.Condition, now time.Time) v1alpha1.PoolStatus {
	var s v1alpha1.PoolStatus
	var total, used, free []string
	for _, family := range lb.Families {
		f := u.Families[family]
		if f.Total == 0 {
			continue
		}
		s.Families = append(s.Families, v1alpha1.FamilyUsage{Family: family.String(), Total: f.Total, Used: int64(f.Used), Free: f.Free})
		all, left := big.NewInt(f.Total), big.NewInt(f.Free)
		if f.Exact != nil {
			all, left = f.Exact, new(big.Int).Sub(f.Exact, big.NewInt(int64(f.Used)))
		}
		total = append(total, short(all))
		used = append(used, strconv.Itoa(f.Used))
		free = append(free, short(left))
	}
	if len(total) == 0 { // a pool without a single valid entry
		total, used, free = []string{"0"}, []string{"0"}, []string{"0"}
	}
	s.Total, s.Used, s.Free = strings.Join(total, " + "), strings.Join(used, " + "), strings.Join(free, " + ")
	s.Conditions = slices.Clone(conditions)
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: poolConditionReady, Status: conditionStatus(u.Reason), Reason: string(u.Reason.Code), Message: u.Reason.Text,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
	return s
}

// short writes n so that people can read it: 254, 65536, 2^40, ~2^64.
func short(n *big.Int) string {
	floor := n.BitLen() - 1
	if floor < 32 {
		return n.String()
	}
	if int(n.TrailingZeroBits()) == floor {
		return "2^" + strconv.Itoa(floor)
	}
	// The nearest power: of 2^64 addresses, some less are about 2^64.
	if n.Bit(floor-1) == 1 {
		floor++
	}
	return "~2^" + strconv.Itoa(floor)
}
