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
	"fairlead.io/internal/compat"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// poolStatusPause is the least time between two rounds of writing pools' status.
const poolStatusPause = time.Second

// ConditionPoolReady is the type of the condition on pools, and on other objects that
// people configure.
const ConditionPoolReady = "Ready"

// poolStatus writes each pool's numbers and reason into its status, some time
// after they changed, and never in the way of a Service.
type poolStatus struct {
	cache  client.Reader
	client client.Client
	ledger *ledger
	told   *Told
	log    *slog.Logger
	// voice of a dialect.
	voice func(lb.Dialect) compat.Voice
	// reporters look after objects of other kinds.
	reporters []Reporter
	// clashes are the pools that were reported as refused because others have their
	// addresses, on the objects that they are written in.
	clashes map[clash]bool
}

// Reporter says on objects of a dialect how its pools are used.
type Reporter interface {
	// Report says whether everything is now as it should be.
	Report(ctx context.Context, usage []ipam.PoolUsage) bool
}

type clash struct {
	about  lb.Object
	reason lb.Reason
}

// Start writes until ctx ends.
func (p *poolStatus) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.ledger.imported: // before, nothing seems to be used
	}
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
	p.told.begin()
	defer p.told.end()
	usage := p.ledger.usage()
	for _, u := range usage {
		if u.Key.Dialect != lb.Native {
			continue
		}
		if err := p.write(ctx, u); err != nil && ctx.Err() == nil {
			p.log.Warn("pool status not written", "pool", u.Key.Name, "error", err)
			done = false
		}
	}
	p.tellClashes(usage)
	for _, r := range p.reporters {
		done = r.Report(ctx, usage) && done
	}
	return done
}

// tellClashes tells on objects that have several pools which of these are refused
// because others have their addresses: that is seen only where all pools are together.
func (p *poolStatus) tellClashes(usage []ipam.PoolUsage) {
	now := map[clash]bool{}
	for _, u := range usage {
		if u.Object == nil || u.Reason.Code != lb.PoolOverlap {
			continue
		}
		c := clash{*u.Object, u.Reason}
		if now[c] = true; !p.clashes[c] {
			p.told.events.addOnce(objectReference(c.about), p.voice(u.Key.Dialect).Event(u.Reason, nil, nil), u.Reason.Warning())
		}
	}
	p.clashes = now
}

func objectReference(o lb.Object) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

func (p *poolStatus) write(ctx context.Context, u ipam.PoolUsage) error {
	var pool v1alpha1.Pool
	if err := p.cache.Get(ctx, types.NamespacedName{Name: u.Key.Name}, &pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	p.told.Meet(pool.UID, pool.Status.Conditions)
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
		answer := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: pool.Name}} // pool is the cache's
		err = p.client.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(component))
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	p.told.Tell(corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Pool", Name: pool.Name, UID: pool.UID}, p.voice(lb.Native), u.Reason)
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
	s.Conditions = WithReady(conditions, u.Reason, now)
	return s
}

// WithReady returns conditions with one that says r.
func WithReady(conditions []metav1.Condition, r lb.Reason, now time.Time) []metav1.Condition {
	out := slices.Clone(conditions)
	meta.SetStatusCondition(&out, metav1.Condition{
		Type: ConditionPoolReady, Status: kubeapi.Status(r), Reason: string(r.Code), Message: r.Text,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
	return out
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
