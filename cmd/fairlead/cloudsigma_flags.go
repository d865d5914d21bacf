package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/config"
)

// Environment variables of CloudSigma's controller manager that are not about how to
// reach the cloud.
const (
	envDisableIPPool  = "CLOUDSIGMA_DISABLE_LB_IP_POOL"
	envEnableCSIToken = "CLOUDSIGMA_ENABLE_CSI_TOKEN"
)

// imageRepository is where the image is if nobody says otherwise: no registry has it.
const imageRepository = "fairlead.invalid/fairlead"

// cloudsigmaFlags are the flags of CloudSigma's controller manager. Most of them are
// as good as an environment variable, and count more.
type cloudsigmaFlags struct {
	flags *pflag.FlagSet

	variables     map[string]*string // by the flag
	legacy        bool
	disableIPPool bool
	csiToken      bool
	podImage      string
	kubeconfig    string
	metrics       string
	health        string
}

// cloudsigmaVariables are the flags that stand for an environment variable.
var cloudsigmaVariables = []struct{ flag, variable, usage string }{
	{"region", cloudsigma.EnvRegion, "region of CloudSigma, such as zrh"},
	{"cloudsigma-region", cloudsigma.EnvRegion, "the same as --region"},
	{"oauth-url", cloudsigma.EnvOAuthURL, "URL of Keycloak, for a service account that acts for --user-email"},
	{"client-id", cloudsigma.EnvClientID, "client ID of the service account"},
	{"client-secret", cloudsigma.EnvClientSecret, "client secret of the service account; better use the variable"},
	{"user-email", cloudsigma.EnvUserEmail, "email address of the CloudSigma user to act for"},
	{"cloudsigma-username", cloudsigma.EnvUsername, "email address of a CloudSigma user with a password"},
	{"cloudsigma-password", cloudsigma.EnvPassword, "password of that user; better use the variable"},
}

func (c *cloudsigmaFlags) add(f *pflag.FlagSet) {
	c.flags, c.variables = f, map[string]*string{}
	for _, v := range cloudsigmaVariables {
		c.variables[v.flag] = f.String(v.flag, "", v.usage+" (default: $"+v.variable+")")
	}
	f.BoolVar(&c.legacy, "enable-legacy-credentials", false, "use name and password of a CloudSigma user although OAuth is configured (default: $"+cloudsigma.EnvLegacyCredentials+")")
	f.BoolVar(&c.disableIPPool, "disable-lb-ip-pool", false, "leave all Services alone that CloudSigma would serve, and manage Nodes only (default: $"+envDisableIPPool+")")
	f.BoolVar(&c.csiToken, "enable-csi-token", false, "refused: Fairlead writes no token for the CSI driver")
	f.StringVar(&c.podImage, "pod-image", "", "image of the pods that carry addresses at CloudSigma where nodes have no agents: with cloudsigma.pods in the configuration file, or without that file (default: "+imageRepository+" with the version of the controller)")
	f.StringVar(&c.kubeconfig, "tenant-kubeconfig", "", "the same as --kubeconfig")
	f.StringVar(&c.metrics, "metrics-bind-address", "", "the same as --metrics-address")
	f.StringVar(&c.health, "health-probe-bind-address", "", "the same as --health-address")
}

// environment returns getenv with what the flags say on top.
func (c *cloudsigmaFlags) environment(getenv func(string) string) func(string) string {
	given := map[string]string{}
	for _, v := range cloudsigmaVariables {
		if value := *c.variables[v.flag]; value != "" {
			given[v.variable] = value
		}
	}
	if c.flags.Changed("enable-legacy-credentials") {
		given[cloudsigma.EnvLegacyCredentials] = strconv.FormatBool(c.legacy)
	}
	return func(name string) string {
		if value, ok := given[name]; ok {
			return value
		}
		return getenv(name)
	}
}

// cloudsigmaIntended says whether the environment, with flags on top, is meant for
// CloudSigma, be it complete or not.
func cloudsigmaIntended(getenv func(string) string) bool {
	for _, name := range []string{cloudsigma.EnvRegion, cloudsigma.EnvEndpoint, cloudsigma.EnvOAuthURL, cloudsigma.EnvOAuthURL2, cloudsigma.EnvClientID,
		cloudsigma.EnvUserEmail, cloudsigma.EnvToken, cloudsigma.EnvToken + "_FILE", cloudsigma.EnvUsername} {
		if getenv(name) != "" {
			return true
		}
	}
	return false
}

// same returns the value of a flag that is another name of ours.
func (c *cloudsigmaFlags) same(name, value, ours, current string) (string, error) {
	switch {
	case !c.flags.Changed(name):
		return current, nil
	case c.flags.Changed(ours):
		return "", fmt.Errorf("--%s and --%s cannot be combined", name, ours)
	}
	return value, nil
}

// configuration returns cfg as the flags and variables change it, and says what is
// missing.
func (c *cloudsigmaFlags) configuration(cfg *config.Configuration, getenv func(string) string) (*config.Configuration, error) {
	on := func(flag string, value bool, variable string) (bool, error) {
		if c.flags.Changed(flag) {
			return value, nil
		}
		return cloudsigma.Bool(getenv, variable)
	}
	csiToken, err := on("enable-csi-token", c.csiToken, envEnableCSIToken)
	if err != nil {
		return nil, err
	}
	disableIPPool, err := on("disable-lb-ip-pool", c.disableIPPool, envDisableIPPool)
	if err != nil {
		return nil, err
	}
	if csiToken {
		return nil, errors.New("--enable-csi-token: Fairlead writes no token for CloudSigma's CSI driver; keep CloudSigma's own controller manager for that, with --disable-lb-ip-pool")
	}
	out := *cfg
	if disableIPPool {
		out.Classes = slices.DeleteFunc(slices.Clone(out.Classes), func(class config.Class) bool { return class.Backend == config.CloudSigma })
	}
	if slices.Contains(out.Backends(), config.CloudSigma) && out.ClusterName == "" {
		return nil, errors.New("no cluster name configured: set --cluster-name, or clusterName in the configuration file, to a name that no other cluster of the account has; the tags of addresses at CloudSigma contain it. To manage Nodes only, set --disable-lb-ip-pool")
	}
	return &out, nil
}
