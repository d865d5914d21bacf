package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// The parts of an SPDX document, version 2.3, that are used.
type (
	spdxDocument struct {
		SPDXVersion   string             `json:"spdxVersion"`
		DataLicense   string             `json:"dataLicense"`
		SPDXID        string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		CreationInfo  spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		SPDXID           string         `json:"SPDXID"`
		Name             string         `json:"name"`
		Version          string         `json:"versionInfo"`
		FileName         string         `json:"packageFileName,omitempty"`
		Download         string         `json:"downloadLocation"`
		FilesAnalyzed    bool           `json:"filesAnalyzed"`
		LicenseConcluded string         `json:"licenseConcluded"`
		LicenseDeclared  string         `json:"licenseDeclared"`
		Copyright        string         `json:"copyrightText"`
		Purpose          string         `json:"primaryPackagePurpose,omitempty"`
		Checksums        []spdxChecksum `json:"checksums,omitempty"`
		External         []spdxExternal `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxExternal struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const noAssertion = "NOASSERTION"

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// sbomOf lists what a Go program was built from: its modules and Go itself, as the program
// says.
func sbomOf(program, name string, v version, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read what %s was built from: %w", name, err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	const root = "SPDXRef-Program"
	doc := spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: name + " " + v.String(),
		Namespace:    "https://fairlead.io/spdx/" + name + "-" + v.String() + "-" + sum,
		CreationInfo: spdxCreation{at.UTC().Format(time.RFC3339), []string{"Organization: Fairlead", "Tool: fairlead-release-" + v.String()}},
		Packages: []spdxPackage{{
			SPDXID: root, Name: info.Path, Version: v.tag(), FileName: name, Download: noAssertion,
			LicenseConcluded: "Apache-2.0", LicenseDeclared: "Apache-2.0", Copyright: noAssertion, Purpose: "APPLICATION",
			Checksums: []spdxChecksum{{"SHA256", sum}},
			External:  []spdxExternal{{"PACKAGE-MANAGER", "purl", purl(info.Main.Path, v.tag())}},
		}},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", root}},
	}
	add := func(path, at, download string) {
		id := "SPDXRef-Module-" + notInID.ReplaceAllString(path+"-"+at, "-")
		doc.Packages = append(doc.Packages, spdxPackage{
			SPDXID: id, Name: path, Version: at, Download: download, LicenseConcluded: noAssertion, LicenseDeclared: noAssertion,
			Copyright: noAssertion, Purpose: "LIBRARY", External: []spdxExternal{{"PACKAGE-MANAGER", "purl", purl(path, at)}},
		})
		doc.Relationships = append(doc.Relationships, spdxRelationship{root, "DEPENDS_ON", id})
	}
	add("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "https://go.dev/dl/")
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, noAssertion) // where from is a matter of whoever builds; the purl names it
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

// purl names a module as package managers do.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
