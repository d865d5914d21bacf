package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"fairlead.io/sandbox"
)

// statusPassed is that of a test that passed, in a report.
const statusPassed = "passed"

// result is what became of a test.
type result struct {
	status  string
	seconds float64
}

// runSuite runs all tests of load balancers but some on the client host. Everything they write is
// in the directory.
func (p programs) runSuite(ctx context.Context, c *sandbox.Cluster, kubeconfig, dir, pass string, but []string) (map[string]result, error) {
	cmd, err := c.ExecCommand(ctx, sandbox.ClientHost, p.kubetest,
		"--kubeconfig="+kubeconfig,
		"--kubectl-path="+filepath.Join(c.StateDir, "bin", "kubectl"),
		"--provider=skeleton", fmt.Sprintf("--num-nodes=%d", c.Nodes),
		"--ginkgo.focus=LoadBalancers", "--ginkgo.skip="+pattern(but),
		"--ginkgo.no-color", "--ginkgo.v",
		"--report-dir="+dir, "--report-prefix="+pass)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, pass+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	fmt.Fprintln(os.Stderr, "running tests; their output goes to", log.Name())
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, &progress{out: os.Stderr}), log
	err = cmd.Run()
	if failed, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || failed.ExitCode() != 1 || ctx.Err() != nil) {
		return nil, fmt.Errorf("run the tests: %w", err)
	}
	report, err := os.ReadFile(filepath.Join(dir, "junit_"+pass+"01.xml"))
	if err != nil {
		return nil, fmt.Errorf("the tests did not end: %w", err)
	}
	return readReport(report)
}

// progress shows the end of each test, of all that they write.
type progress struct {
	out  io.Writer
	line []byte // the last one, as far as it was written
	test string // the one that runs
}

func (p *progress) Write(b []byte) (int, error) {
	p.line = append(p.line, b...)
	for {
		line, rest, complete := strings.Cut(string(p.line), "\n")
		if !complete {
			return len(b), nil
		}
		p.line = []byte(rest)
		switch {
		case strings.HasPrefix(line, "[sig-"):
			p.test = plainName(line)
		case strings.HasPrefix(line, "• "), strings.HasPrefix(line, "S ["):
			fmt.Fprintf(p.out, "%s %s\n", line, p.test)
		}
	}
}

// pattern is a regular expression for the full names of tests, which have tags between their
// parts.
func pattern(tests []string) string {
	names := make([]string, len(tests))
	for i, name := range tests {
		_, rest, _ := strings.Cut(name, "should ")
		names[i] = ".*should " + regexp.QuoteMeta(rest) + `( \[.*)?`
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// tags are a part of test names: [sig-network], [Slow].
var tags = regexp.MustCompile(`\[[^]]*\]`)

// plainName is a test's name as people say it: without tags, and without what all have in common.
func plainName(full string) string {
	return strings.TrimPrefix(strings.Join(strings.Fields(tags.ReplaceAllString(full, "")), " "), "LoadBalancers ")
}

// readReport reads a JUnit report, without tests that were not chosen.
func readReport(report []byte) (map[string]result, error) {
	var suites struct {
		Suites []struct {
			Cases []struct {
				Name    string  `xml:"name,attr"`
				Status  string  `xml:"status,attr"`
				Seconds float64 `xml:"time,attr"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(report, &suites); err != nil {
		return nil, fmt.Errorf("read the report of the tests: %w", err)
	}
	results := map[string]result{}
	for _, s := range suites.Suites {
		for _, c := range s.Cases {
			chosen := c.Skipped == nil || strings.Contains(c.Skipped.Message, " - ") // a test that skips itself says why
			if strings.HasPrefix(c.Name, "[It] ") && chosen {
				results[plainName(c.Name)] = result{c.Status, c.Seconds}
			}
		}
	}
	return results, nil
}
