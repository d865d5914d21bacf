package config

import (
	"fmt"
	"strconv"

	"fairlead.io/internal/lb"
)

// Environment variables of kube-vip-cloud-provider. Without --config, any of the first
// three makes the controller replace the provider.
const (
	// EnvKubeVIPNamespace is the namespace of the ConfigMap. Agents read it too.
	//
	// Type: name of a namespace
	// Default: kube-system
	EnvKubeVIPNamespace = "KUBEVIP_NAMESPACE"

	// EnvKubeVIPConfigMap is the name of the ConfigMap. Agents read it too.
	//
	// Type: name of a ConfigMap
	// Default: kubevip
	EnvKubeVIPConfigMap = "KUBEVIP_CONFIG_MAP"

	// EnvKubeVIPClassMode makes the controller serve only Services of one class, and
	// none without a class.
	//
	// Type: "true" or "false"
	// Default: "false"
	EnvKubeVIPClassMode = "KUBEVIP_ENABLE_LOADBALANCERCLASS"

	// EnvKubeVIPClassName is that class, as in spec.loadBalancerClass.
	//
	// Type: name of a class
	// Default: kube-vip.io/kube-vip-class
	EnvKubeVIPClassName = "KUBEVIP_CUSTOM_LOADBALANCERCLASS_NAME"
)

const (
	kubevipNamespace = "kube-system"
	kubevipConfigMap = "kubevip"
	kubevipClass     = "kube-vip.io/kube-vip-class"
)

// KubeVIPMap is where the ConfigMap of kube-vip's cloud provider is.
type KubeVIPMap struct{ Namespace, Name string }

// KubeVIPMapFrom reads it from the environment.
func KubeVIPMapFrom(env func(string) string) KubeVIPMap {
	m := KubeVIPMap{Namespace: env(EnvKubeVIPNamespace), Name: env(EnvKubeVIPConfigMap)}
	if m.Namespace == "" {
		m.Namespace = kubevipNamespace
	}
	if m.Name == "" {
		m.Name = kubevipConfigMap
	}
	return m
}

// fromKubeVIP returns the class that the environment of kube-vip's cloud provider
// stands for, or nil if nothing in it is set: Services without a class, or in class
// mode those of the one class, with addresses for kube-vip to announce.
func fromKubeVIP(env func(string) string) (*Class, error) {
	if env(EnvKubeVIPNamespace) == "" && env(EnvKubeVIPConfigMap) == "" && env(EnvKubeVIPClassMode) == "" {
		return nil, nil
	}
	class := &Class{Backend: KubeVIP, Pools: []lb.Dialect{kubevipPools}}
	if mode := env(EnvKubeVIPClassMode); mode != "" {
		on, err := strconv.ParseBool(mode)
		if err != nil {
			return nil, fmt.Errorf("$%s is %q, must be true or false", EnvKubeVIPClassMode, mode)
		}
		if on {
			if class.Name = env(EnvKubeVIPClassName); class.Name == "" {
				class.Name = kubevipClass
			}
		}
	}
	return class, nil
}
