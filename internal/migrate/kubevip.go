package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/config"
	"fairlead.io/internal/prose"
)

var kubeVIP = Source{
	Name: "kube-vip", Title: "kube-vip", guide: "migrate-from-kube-vip.md",
	workloads: kubeVIPWorkloads, assess: assessKubeVIP,
}

// announcerComponent is kube-vip itself, which may stay.
const announcerComponent = "announcer"

// Where the manifest of kube-vip's cloud provider puts it.
const (
	kubeVIPHome     = "kube-system"
	kubeVIPProvider = "kube-vip-cloud-provider"
)

func kubeVIPWorkloads(c *cluster) []Workload {
	return c.workloads(
		part{component: "provider", images: []string{kubeVIPProvider}, names: []string{kubeVIPProvider}},
		part{component: announcerComponent, images: []string{"kube-vip/kube-vip", "plndr/kube-vip", "kube-vip"}, names: []string{"kube-vip-ds", "kube-vip"}},
	)
}

func assessKubeVIP(ctx context.Context, c *cluster, o Options, f *finding) error {
	provider, announcer := c.component("provider"), f.announcer(c)
	if provider != nil {
		f.kubeVIPMap = config.KubeVIPMapFrom(provider.getenv)
		if provider.Release != "" && provider.getenv(config.EnvKubeVIPConfigMap) == "" {
			f.kubeVIPMap = config.KubeVIPMap{Namespace: provider.Namespace, Name: "kube-vip-cloud-provider-cm"}
		}
	} else {
		f.kubeVIPMap = config.KubeVIPMapFrom(func(string) string { return "" })
	}
	cm := c.configMap(ctx, f.kubeVIPMap.Namespace, f.kubeVIPMap.Name)
	if cm == nil {
		f.skip("ConfigMap", "%s/%s does not exist: there are no pools", f.kubeVIPMap.Namespace, f.kubeVIPMap.Name)
	} else if provider == nil || provider.Release == "" { // else the steps copy it
		f.objects = append(f.objects, Objects{Kind: "ConfigMap", Version: "v1", Names: []string{cm.Namespace + "/" + cm.Name}})
	}
	if o.Alongside {
		return f.kubeVIPAlongside(provider, cm, o)
	}
	return f.kubeVIPReplaced(c, provider, announcer, cm, o)
}

// announcer returns the kube-vip that announces Services; others may serve the control
// plane only.
func (f *finding) announcer(c *cluster) (out *Workload) {
	for i := range c.found {
		w := &c.found[i]
		if w.Component != announcerComponent || w.getenv("svc_enable") == "false" {
			continue
		}
		if out != nil && (out.Kind != w.Kind || w.Kind != "Pod") {
			f.refuse("kube-vip", fmt.Sprintf("%s and %s both announce Services", out.name(), w.name()), "Set svc_enable to false in one of them first.")
		}
		if out == nil {
			out = w
		}
	}
	return out
}

// copied is the command by which all keys of a ConfigMap are copied.
func copied(cm *corev1.ConfigMap) []string {
	if cm == nil {
		return nil
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		keys = append(keys, "--from-literal="+quote(key+"="+cm.Data[key]))
	}
	return []string{"--from-literal=cidr-global=192.0.2.0/28", strings.Join(keys, " ")}
}

// kubeVIPAlongside replaces the provider.
func (f *finding) kubeVIPAlongside(provider *Workload, cm *corev1.ConfigMap, o Options) (err error) {
	if provider == nil {
		f.refuse("kube-vip", kubeVIPProvider+" does not run, so there is nothing to replace", "Install Fairlead alongside kube-vip: docs/guides/migrate-from-kube-vip.md#alongside-kube-vip.")
		return nil
	}
	env := func(name string) string {
		if name == config.EnvKubeVIPNamespace {
			return f.kubeVIPMap.Namespace
		}
		return provider.getenv(name)
	}
	if f.config, err = config.FromEnv(env); err != nil {
		f.refuse("kube-vip", err.Error(), "Correct the variable in "+provider.name()+".")
		return nil
	}
	home := config.KubeVIPMapFrom(func(string) string { return "" })
	if provider.Release != "" {
		f.sections = []string{"Take stock", "If you installed the provider with Helm"}
		f.names = append(copied(cm),
			"configmap kube-vip-cloud-provider-cm --namespace kube-system", fmt.Sprintf("configmap %s --namespace %s", f.kubeVIPMap.Name, f.kubeVIPMap.Namespace),
			"helm uninstall kube-vip-cloud-provider --namespace kube-system", "helm uninstall "+provider.Release+" --namespace "+provider.Namespace,
			"kubectl apply -f deploy/kube-vip.yaml", manifest("deploy/kube-vip.yaml", o.Image),
		)
		return nil
	}
	if provider.Namespace != kubeVIPHome || provider.Name != kubeVIPProvider {
		f.refuse("kube-vip", fmt.Sprintf("%s has another name than deployment %s/%s, which the manifest replaces", provider.name(), kubeVIPHome, kubeVIPProvider), "Follow the guide by hand.")
		return nil
	}
	var v values
	if f.kubeVIPMap != home {
		v.set("kubeVip.namespace", f.kubeVIPMap.Namespace)
		v.set("kubeVip.configMap", f.kubeVIPMap.Name)
	}
	for _, class := range f.config.Classes {
		if class.Name != "" {
			v.set("loadBalancerClass", class.Name)
		}
	}
	f.sections = []string{"Take stock", "Alongside kube-vip"}
	f.holds["chart"], f.holds["manifest"] = len(v) > 0, len(v) == 0
	v.image(o.Image)
	f.names = []string{
		"helm template fairlead charts/fairlead", "helm template fairlead charts/fairlead" + v.String(),
		"kubectl apply -f deploy/kube-vip.yaml", manifest("deploy/kube-vip.yaml", o.Image),
		"configmap kubevip --namespace kube-system", "configmap " + f.kubeVIPMap.Name + " --namespace " + f.kubeVIPMap.Namespace,
	}
	return nil
}

// kubeVIPReplaced replaces the provider and kube-vip itself.
func (f *finding) kubeVIPReplaced(c *cluster, provider, announcer *Workload, cm *corev1.ConfigMap, o Options) error {
	if announcer == nil {
		f.refuse("kube-vip", "kube-vip itself does not run: nobody announces the addresses", "Replace the provider alone: kubectl fairlead migrate --from kube-vip --alongside.")
		return nil
	}
	controlPlane := announcer.getenv("cp_enable") == "true"
	theirs := slices.DeleteFunc(slices.Clone(announcer.Variables), func(e string) bool { return strings.HasPrefix(e, "cp_enable=") || strings.HasPrefix(e, "lb_enable=") })
	daemon, err := config.KubeVIPDaemonFrom(theirs)
	if err != nil {
		f.refuse("kube-vip", prose.Sentence(err.Error()), "Correct the variable in "+announcer.name()+".")
		return nil
	}
	for _, idle := range daemon.Idle {
		if idle.Effect == config.Unserved {
			f.refuse("kube-vip", fmt.Sprintf("%s: %s", prose.And(idle.Names), idle.Note), "Keep kube-vip as the announcer: kubectl fairlead migrate --from kube-vip --alongside.")
		}
	}
	env := f.readEnvironment(announcer)
	if f.kubeVIPBGP = env.bgp; env.bgp != nil {
		f.kubeVIPSessions(c, announcer, controlPlane)
	}
	f.each[eachNode] = [][]string{}
	f.config = config.Default()
	if daemon.Classes != nil {
		if f.config, err = f.config.OnlyKubeVIPClasses(daemon.Classes); err != nil {
			return err
		}
	}
	released := provider != nil && provider.Release != ""
	v := kubeVIPValues(o, announcer, f.kubeVIPMap, released, &env)
	f.sections = []string{"Take stock", "Replace both"}
	static := announcer.Kind == "Pod"
	routed := env.bgp != nil
	f.holds = map[string]bool{
		"provider": provider != nil, "released": released, "arp": !routed, "bgp": routed,
		"bgpdaemonset": routed && !static && !controlPlane, "bgpstatic": routed && static,
		"daemonset": !routed && !static && !controlPlane, "static": static && !controlPlane,
		"controlplane": !static && controlPlane, "staticcontrolplane": static && controlPlane,
	}
	var deployment string
	f.names = append(copied(cm), "helm install fairlead charts/fairlead", "helm install fairlead charts/fairlead"+v.String())
	if provider != nil {
		deployment = " deployment/" + provider.Name
		f.names = append(f.names,
			"scale --namespace kube-system deployment/kube-vip-cloud-provider", "scale --namespace "+provider.Namespace+deployment,
			"helm uninstall kube-vip-cloud-provider --namespace kube-system", "helm uninstall "+provider.Release+" --namespace "+provider.Namespace)
	}
	accounts, roles := kubeVIPLeft(c, provider, announcer, controlPlane, released)
	if released {
		deployment = ""
	}
	f.holds["rest"], f.holds["roles"] = deployment+accounts != "", roles != ""
	f.names = append(f.names,
		"delete daemonset kube-vip-ds --namespace kube-system", "delete daemonset "+announcer.Name+" --namespace "+announcer.Namespace,
		"delete daemonset --namespace kube-system kube-vip-ds", "delete daemonset --namespace "+announcer.Namespace+" "+announcer.Name,
		"set env --namespace kube-system daemonset/kube-vip-ds", "set env --namespace "+announcer.Namespace+" daemonset/"+announcer.Name,
		"delete --namespace kube-system deployment/kube-vip-cloud-provider serviceaccount/kube-vip serviceaccount/kube-vip-cloud-controller", "delete --namespace "+announcer.Namespace+deployment+accounts,
		"kubectl delete clusterrole/system:kube-vip-role clusterrole/system:kube-vip-cloud-controller-role clusterrolebinding/system:kube-vip-binding clusterrolebinding/system:kube-vip-cloud-controller-binding", "kubectl delete"+roles,
		"lease --namespace kube-system --ignore-not-found plndr-svcs-lock", "lease --namespace "+announcer.Namespace+" --ignore-not-found "+cmp.Or(announcer.getenv("svc_leasename"), "plndr-svcs-lock"),
	)
	if provider != nil && provider.Namespace != announcer.Namespace {
		f.refuse("kube-vip", fmt.Sprintf("%s and %s are in different namespaces", provider.name(), announcer.name()), "Follow the guide by hand: docs/guides/migrate-from-kube-vip.md#replace-both.")
	}
	return nil
}

// kubeVIPValues make Fairlead's chart do what kube-vip's variables say.
func kubeVIPValues(o Options, announcer *Workload, at config.KubeVIPMap, released bool, env *environment) (v values) {
	v.image(o.Image)
	if released { // then it is copied to where it is read by default
		at = config.KubeVIPMapFrom(func(string) string { return "" })
	}
	if at != config.KubeVIPMapFrom(func(string) string { return "" }) {
		v.set("kubeVip.namespace", at.Namespace)
		v.set("kubeVip.configMap", at.Name)
	}
	env.set(&v, announcer)
	v.place(&announcer.template)
	return v
}

// kubeVIPLeft are the accounts and roles that nobody needs afterwards, as arguments.
func kubeVIPLeft(c *cluster, provider, announcer *Workload, controlPlane, released bool) (accounts, roles string) {
	left := &cluster{roles: c.roles}
	if !controlPlane {
		left.found = append(left.found, *announcer)
	}
	if provider != nil && !released {
		left.found = append(left.found, *provider)
	}
	for _, r := range left.rights() {
		kind, name, _ := strings.Cut(r, " ")
		switch kind {
		case "serviceaccount":
			accounts += " serviceaccount/" + name[strings.Index(name, "/")+1:]
		case "clusterrole", "clusterrolebinding":
			roles += " " + kind + "/" + quote(name)
		}
	}
	return accounts, roles
}
