package migrate

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// values are flags for Helm, with which Fairlead's chart is installed.
type values []string

func (v *values) set(name, value string) {
	*v = append(*v, "--set "+quote(name+"="+strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(value)))
}

func (v *values) setJSON(name string, value any) {
	data, err := json.Marshal(value)
	if err == nil { // it is made of strings
		*v = append(*v, "--set-json "+quote(name+"="+string(data)))
	}
}

// image names the image of Fairlead.
func (v *values) image(image string) {
	if image == "" {
		return
	}
	if name, digest, is := strings.Cut(image, "@"); is {
		v.set("image.repository", name)
		v.set("image.digest", digest)
		return
	}
	i := strings.LastIndex(image, ":")
	if i <= strings.LastIndex(image, "/") {
		v.set("image.repository", image)
		return
	}
	v.set("image.repository", image[:i])
	v.set("image.tag", image[i+1:])
}

// controlPlane is the taint that the chart's agents tolerate.
const controlPlane = "node-role.kubernetes.io/control-plane"

// place runs agents on the nodes on which the pods of spec run.
func (v *values) place(spec *corev1.PodSpec) {
	nodes := map[string]string{}
	for label, value := range spec.NodeSelector {
		if label != corev1.LabelOSStable { // agents only run on Linux
			nodes[label] = value
		}
	}
	if len(nodes) > 0 {
		v.setJSON("agent.nodeSelector", nodes)
	}
	var more []corev1.Toleration
	for _, t := range spec.Tolerations {
		known := t.Key == controlPlane || t.Key == "node-role.kubernetes.io/master"
		if !known && !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			more = append(more, t)
		}
	}
	if len(more) > 0 {
		v.setJSON("agent.tolerations", slices.Insert(more, 0, corev1.Toleration{Key: controlPlane, Operator: corev1.TolerationOpExists}))
	}
}

// String has a blank before each flag.
func (v values) String() string {
	if len(v) == 0 {
		return ""
	}
	return " " + strings.Join(v, " ")
}

// quote quotes a word for a shell if that is needed.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// manifest is the command that applies a manifest of deploy, with another image if there
// is one.
func manifest(file, image string) string {
	if image == "" {
		return "kubectl apply -f " + file
	}
	return "sed -e " + quote("s#fairlead.invalid/fairlead:[^ ]*#"+image+"#") + " -e 's#imagePullPolicy: Never#imagePullPolicy: IfNotPresent#' " + file + " | kubectl apply -f -"
}
