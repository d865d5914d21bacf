package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
)

// Labels that the chart puts on pods.
const (
	labelName       = "app.kubernetes.io/name"
	labelFairlead   = "fairlead"
	labelComponent  = "app.kubernetes.io/component"
	labelController = "controller"
)

// defaultMetalLBNamespace is where MetalLB's own manifests put its objects.
const defaultMetalLBNamespace = "metallb-system"

// defaultKeep is how long agents keep connections if their flags do not say.
const defaultKeep = 15 * time.Minute

// Install is what runs in the cluster, and how it is configured.
type Install struct {
	// Controllers and AgentPods are the pods of both daemons.
	Controllers, AgentPods []corev1.Pod
	// Leader is the pod of the controller that leads, or who else holds the Lease.
	Leader string
	// LeaderUnknown is why the leader is not known; "" if it is, or if there is none.
	LeaderUnknown string
	// ConfigFrom says where the configuration was read.
	ConfigFrom string
	// Assumed is why the configuration could not be read; the defaults stand in then. It is
	// "" if it was read.
	Assumed string
	// MetalLBNamespace and KubeVIPMap are where objects of others count.
	MetalLBNamespace string
	KubeVIPMap       config.KubeVIPMap
	// KeepConnections is how long agents keep connections after a planned move, unless the
	// pool says. NoGossip: agents do not talk to each other, and keep none.
	KeepConnections time.Duration
	NoGossip        bool
	// IgnoreExcludeLabel: agents announce from nodes that are excluded by label.
	IgnoreExcludeLabel bool
	// KubeVIPInterface is the one that agents use for Services in kube-vip's format.
	KubeVIPInterface string
	// KubeVIPBGP is what the environment of agents says about BGP in kube-vip's words, or nil.
	KubeVIPBGP *config.KubeVIPBGP
}

// readInstall finds the daemons by their pods, and reads their configuration.
func (s *Snapshot) readInstall(ctx context.Context, c client.Client) error {
	in := &s.Install
	for _, p := range s.Pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if p.Labels[labelComponent] == labelController {
			in.Controllers = append(in.Controllers, p)
		} else {
			in.AgentPods = append(in.AgentPods, p)
		}
	}
	var d, agent daemon
	if len(in.Controllers) > 0 {
		d = daemonOf(&in.Controllers[0])
	}
	if len(in.AgentPods) > 0 {
		agent = daemonOf(&in.AgentPods[0])
	}
	in.MetalLBNamespace = cmp.Or(s.options.MetalLBNamespace, d.flag("metallb-namespace"), d.env["METALLB_NAMESPACE"], defaultMetalLBNamespace)
	in.KubeVIPMap = cmp.Or(s.options.KubeVIPMap, config.KubeVIPMapFrom(d.getenv))
	in.readFlags(agent)
	if theirs, err := config.KubeVIPDaemonFrom(agent.environ()); err == nil {
		in.KubeVIPInterface = theirs.Interface
	}
	if in.KubeVIPBGP = s.options.KubeVIPBGP; in.KubeVIPBGP == nil {
		if theirs, err := config.KubeVIPBGPFrom(agent.literals()); err == nil {
			in.KubeVIPBGP = theirs
		}
	}
	if err := s.readConfig(ctx, c, d); err != nil {
		return err
	}
	if s.Config.Uses("kube-vip") {
		s.readConfigMap(ctx, c)
	}
	s.readLeader(ctx, c, d)
	return nil
}

// readFlags takes over what the flags of agents say.
func (in *Install) readFlags(agent daemon) {
	in.IgnoreExcludeLabel = agent.flag("ignore-exclude-lb") == "true"
	in.NoGossip, in.KeepConnections = agent.flag("gossip-port") == "0", defaultKeep
	if keep, err := time.ParseDuration(agent.flag("keep-connections")); err == nil {
		in.KeepConnections = keep
	}
}

// readConfig finds the configuration of the controller.
func (s *Snapshot) readConfig(ctx context.Context, c client.Client, d daemon) (err error) {
	in := &s.Install
	switch file := d.flag("config"); {
	case s.options.Config != nil:
		s.Config, in.ConfigFrom = s.options.Config, "--config"
		return nil
	case s.cannot("pods"):
		s.Config, in.ConfigFrom, in.Assumed = config.Default(), "the defaults, because pods cannot be listed", s.unread("pods")
	case d.pod == nil:
		s.Config, in.ConfigFrom = config.Default(), "the defaults, because no controller runs"
	case file != "":
		name, key := d.mounted(file)
		var cm corev1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: d.pod.Namespace, Name: name}, &cm); err != nil {
			in.Assumed = fmt.Sprintf("cannot read ConfigMap %s/%s, the configuration", d.pod.Namespace, name)
			s.Unknown = append(s.Unknown, in.Assumed)
			s.Config, in.ConfigFrom = config.Default(), "the defaults"
			return nil //nolint:nilerr // it is unknown
		}
		if s.Config, err = config.Parse([]byte(cm.Data[key])); err != nil {
			return fmt.Errorf("read ConfigMap %s/%s: %w", d.pod.Namespace, name, err)
		}
		in.ConfigFrom = "ConfigMap " + d.pod.Namespace + "/" + name
	default:
		var clouds []config.Cloud
		if d.getenv("CLOUDSCALE_ACCESS_TOKEN") != "" || d.getenv("CLOUDSCALE_ACCESS_TOKEN_FILE") != "" {
			clouds = append(clouds, config.CloudscaleNodes)
		}
		if d.getenv("CLOUDSIGMA_REGION") != "" {
			clouds = append(clouds, config.CloudSigmaNodes)
		}
		if s.Config, err = config.FromEnv(d.getenv, clouds...); err != nil {
			return fmt.Errorf("read the environment of pod %s/%s: %w", d.pod.Namespace, d.pod.Name, err)
		}
		in.ConfigFrom = "pod " + d.pod.Namespace + "/" + d.pod.Name
	}
	return s.narrowClasses(d)
}

// narrowClasses leaves the classes that flags and variables of the pod name.
func (s *Snapshot) narrowClasses(d daemon) (err error) {
	if class, given := d.flags["lb-class"]; given {
		s.Config, err = s.Config.OnlyClass(class)
		return err
	}
	names, err := config.KubeVIPClassesFrom(d.environ())
	if err != nil || names == nil {
		return err
	}
	s.Config, err = s.Config.OnlyKubeVIPClasses(names)
	return err
}

// readConfigMap reads the ConfigMap of kube-vip's cloud provider. It need not be there.
func (s *Snapshot) readConfigMap(ctx context.Context, c client.Client) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	m := s.Install.KubeVIPMap
	var cm corev1.ConfigMap
	switch err := c.Get(ctx, client.ObjectKey(m), &cm); {
	case err == nil:
		s.objects.add(&corev1.ConfigMapList{Items: []corev1.ConfigMap{cm}})
	case apierrors.IsNotFound(err):
		s.objects.add(&corev1.ConfigMapList{})
	default:
		s.refuseAs("configmaps", fmt.Sprintf("cannot read ConfigMap %s/%s", m.Namespace, m.Name))
		s.objects.lacks[kind] = "cannot read it"
	}
}

// readLeader finds the leader by its Lease.
func (s *Snapshot) readLeader(ctx context.Context, c client.Client, d daemon) {
	in := &s.Install
	if d.pod == nil {
		return
	}
	key := client.ObjectKey{
		Namespace: cmp.Or(d.flag("leader-elect-resource-namespace"), d.flag("leader-elect-namespace"), d.pod.Namespace),
		Name:      cmp.Or(d.flag("leader-elect-resource-name"), controller.LeaderLease),
	}
	var lease coordinationv1.Lease
	switch err := c.Get(ctx, key, &lease); {
	case apierrors.IsNotFound(err):
		return
	case err != nil:
		in.LeaderUnknown = fmt.Sprintf("cannot read Lease %s/%s", key.Namespace, key.Name)
		s.Unknown = append(s.Unknown, in.LeaderUnknown)
		return
	}
	holder, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if renewed := lease.Spec.RenewTime; renewed != nil {
		length := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)
		if s.At.Sub(renewed.Time).Seconds() > float64(length)+5 {
			return // nobody renews it
		}
	}
	in.Leader = holder
}

// valueElsewhere stands for the value of a variable that is not in the pod.
const valueElsewhere = "(set)"

// daemon is how a pod of ours was started.
type daemon struct {
	pod   *corev1.Pod
	flags map[string]string
	env   map[string]string
}

// daemonOf reads the arguments and variables of the pod's first container. A variable
// that is read from elsewhere is known to be set, but not its value.
func daemonOf(p *corev1.Pod) daemon {
	d := daemon{pod: p, flags: map[string]string{}, env: map[string]string{}}
	if len(p.Spec.Containers) == 0 {
		return d
	}
	c := &p.Spec.Containers[0]
	args := slices.Concat(c.Command, c.Args)
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") {
			name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			switch {
			case given:
			case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
				value = args[i+1]
			default:
				value = "true"
			}
			d.flags[name] = value
		}
	}
	for _, e := range c.Env {
		d.env[e.Name] = e.Value
		if e.ValueFrom != nil {
			d.env[e.Name] = valueElsewhere
		}
	}
	return d
}

func (d daemon) flag(name string) string   { return d.flags[name] }
func (d daemon) getenv(name string) string { return d.env[name] }

func (d daemon) environ() (out []string) {
	for name, value := range d.env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// literals are the variables whose value is in the pod itself.
func (d daemon) literals() []string {
	return slices.DeleteFunc(d.environ(), func(e string) bool { return strings.HasSuffix(e, "="+valueElsewhere) })
}

// mounted returns the ConfigMap that is mounted at the directory of file, and its key.
func (d daemon) mounted(file string) (name, key string) {
	for _, m := range d.pod.Spec.Containers[0].VolumeMounts {
		if m.MountPath != path.Dir(file) {
			continue
		}
		for _, v := range d.pod.Spec.Volumes {
			if v.Name == m.Name && v.ConfigMap != nil {
				name = v.ConfigMap.Name
			}
		}
	}
	return name, path.Base(file)
}

// podReady says whether a pod is ready.
func podReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
