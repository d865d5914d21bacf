package tool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/internal/config"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// runningPod is one that a kubelet has started.
type runningPod struct {
	node string // if it is an agent
	stop func() // returns when it has ended
}

// begin runs a pod of ours until it is deleted: the controller's program, with the pod's
// arguments, files, variables and rights, or an agent in this process with its configuration.
func (k *kubelets) begin(ctx context.Context, running *sync.WaitGroup, p *corev1.Pod) {
	if k.pods[p.UID] != nil {
		return
	}
	p = p.DeepCopy() // the caller writes its own
	pod, once := &runningPod{}, k.program
	if p.Labels["app.kubernetes.io/component"] != "controller" {
		pod.node, once = p.Spec.NodeName, k.agent
		for _, other := range k.pods { // the new agent of a node takes over
			if other.node == pod.node {
				other.stop()
			}
		}
	}
	limited, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	pod.stop = func() { cancel(); <-ended }
	k.pods[p.UID] = pod
	log := process.LogOf(k, "pod "+p.Namespace+"/"+p.Name)
	running.Go(func() {
		defer close(ended)
		for limited.Err() == nil {
			err := once(limited, p, log)
			if limited.Err() != nil {
				return
			}
			fmt.Fprintf(log, "ended, and starts again: %v\n", err)
			select {
			case <-limited.Done():
			case <-time.After(time.Second):
			}
		}
	})
}

// end ends a pod.
func (k *kubelets) end(p *corev1.Pod) {
	if pod := k.pods[p.UID]; pod != nil {
		pod.stop()
		delete(k.pods, p.UID)
	}
}

// program runs a controller until it ends.
func (k *kubelets) program(ctx context.Context, p *corev1.Pod, log *process.Log) error {
	dir, err := os.MkdirTemp(k.dir, "pod")
	if err != nil {
		return err
	}
	c := p.Spec.Containers[0]
	env, err := k.environment(ctx, p)
	if err != nil {
		return err
	}
	args := append([]string(nil), c.Args...)
	for i := range args {
		for name, value := range env {
			args[i] = strings.ReplaceAll(args[i], "$("+name+")", value)
		}
	}
	for _, m := range c.VolumeMounts {
		at := filepath.Join(dir, m.Name)
		if err := k.mount(ctx, p, m.Name, at); err != nil {
			return err
		}
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], m.MountPath+"/", at+"/")
		}
		for name, value := range env {
			env[name] = strings.ReplaceAll(value, m.MountPath+"/", at+"/")
		}
	}
	all := strings.Join(args, " ")
	if !strings.Contains(all, "kubeconfig=") {
		file := filepath.Join(dir, "kubeconfig")
		if err := k.account(ctx, p, file); err != nil {
			return err
		}
		args = append(args, "--kubeconfig="+file, "--namespace="+p.Namespace)
		if !strings.Contains(all, "--leader-elect-resource-namespace=") {
			args = append(args, "--leader-elect-namespace="+p.Namespace)
		}
	}
	cmd := exec.CommandContext(ctx, tree.Binary(k, "fairlead"), append(args, "--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0")...)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append([]string{"PATH=/none"}, k.variables...)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd.Run()
}

// environment are the variables of a pod.
func (k *kubelets) environment(ctx context.Context, p *corev1.Pod) (map[string]string, error) {
	env := map[string]string{}
	for _, e := range p.Spec.Containers[0].Env {
		env[e.Name] = e.Value
		if e.ValueFrom == nil {
			continue
		}
		if ref := e.ValueFrom.SecretKeyRef; ref != nil {
			var s corev1.Secret
			if err := k.rig.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: ref.Name}, &s); err != nil {
				return nil, err
			}
			value, has := s.Data[ref.Key]
			if !has {
				return nil, fmt.Errorf("Secret %s has no key %s", ref.Name, ref.Key)
			}
			env[e.Name] = string(value)
		}
		if ref := e.ValueFrom.FieldRef; ref != nil {
			env[e.Name] = map[string]string{"spec.nodeName": p.Spec.NodeName, "metadata.namespace": p.Namespace, "metadata.name": p.Name}[ref.FieldPath]
		}
	}
	return env, nil
}

// mount writes the files of a volume.
func (k *kubelets) mount(ctx context.Context, p *corev1.Pod, volume, at string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, v := range p.Spec.Volumes {
		if v.Name != volume {
			continue
		}
		var err error
		optional := false
		switch {
		case v.ConfigMap != nil:
			var m corev1.ConfigMap
			err = k.rig.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: v.ConfigMap.Name}, &m)
			optional = v.ConfigMap.Optional != nil && *v.ConfigMap.Optional
			for name, text := range m.Data {
				files[name] = []byte(text)
			}
		case v.Secret != nil:
			var s corev1.Secret
			err = k.rig.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: v.Secret.SecretName}, &s)
			optional = v.Secret.Optional != nil && *v.Secret.Optional
			files = s.Data
			for _, item := range v.Secret.Items {
				files[item.Path] = s.Data[item.Key]
			}
		}
		if err != nil && !(optional && apierrors.IsNotFound(err)) {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(at, name), []byte(strings.NewReplacer(k.ground.names...).Replace(string(text))), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// account writes a kubeconfig with the rights of a pod's service account.
func (k *kubelets) account(ctx context.Context, p *corev1.Pod, path string) error {
	c, err := clientcmd.LoadFromFile(k.rig.API.Kubeconfig)
	if err != nil {
		return err
	}
	request := authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = p.Namespace, p.Spec.ServiceAccountName
	if err := k.rig.Client.SubResource("token").Create(ctx, account, &request); err != nil {
		return err
	}
	c.AuthInfos = map[string]*clientcmdapi.AuthInfo{c.Contexts[c.CurrentContext].AuthInfo: {Token: request.Status.Token}}
	return clientcmd.WriteToFile(*c, path)
}

// agent runs the agent of a node, without a node, until it ends.
func (k *kubelets) agent(ctx context.Context, p *corev1.Pod, _ *process.Log) error {
	o := agentsim.Options{REST: k.rig.API.RESTConfig(), Node: p.Spec.NodeName, Addr: k.addrs[p.Spec.NodeName], Gossip: k.gossip, Namespace: p.Namespace,
		MetalLBNamespace: rig.MetalLBNamespace, Routers: k.routers[p.Spec.NodeName]}
	var node corev1.Node // a cloud may have changed its address
	if err := k.rig.Client.Get(ctx, client.ObjectKey{Name: o.Node}, &node); err != nil {
		return err
	}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} { // the last one counts
		for _, a := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == kind {
				o.Addr = ip
			}
		}
	}
	for _, arg := range p.Spec.Containers[0].Args {
		if value, is := strings.CutPrefix(arg, "--metallb-namespace="); is {
			o.MetalLBNamespace = value
		}
	}
	env, err := k.environment(ctx, p)
	if err != nil {
		return err
	}
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	dir, err := os.MkdirTemp(k.dir, "agent")
	if err != nil {
		return err
	}
	if err := k.mount(ctx, p, "configuration", dir); err != nil {
		return err
	}
	bgp, errBGP := config.KubeVIPBGPFrom(environ)
	c, errConfig := config.Load(filepath.Join(dir, "fairlead.yaml"))
	if err := errors.Join(errBGP, errConfig); err != nil {
		return err
	}
	o.Config, o.KubeVIPBGP = c, bgp
	return agentsim.Run(ctx, o)
}
