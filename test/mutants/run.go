package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// variable is the environment variable with the number of the mutant.
	variable = "FAIRLEAD_MUTANT"
	// patience is how many times longer than all tests together a mutant may take before
	// it counts as noticed: it may have made a loop endless.
	patience = 10
	// memory bounds the address space of a mutant: it may have made a list endless.
	memory = 8 << 30
)

// selector is a file that is added to the package.
const selector = `package %s

import "os"
import "strconv"

var mutantNumber = func() int { n, _ := strconv.Atoi(os.Getenv("` + variable + `")); return n }()

func mutantOn(n int) bool { return n == mutantNumber }

type mutantNumeric interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutantAdd[T mutantNumeric](n int, a, b T) T {
	if mutantOn(n) {
		return a - b
	}
	return a + b
}

func mutantSub[T mutantNumeric](n int, a, b T) T {
	if mutantOn(n) {
		return a + b
	}
	return a - b
}
`

// result of the tests with all mutants.
type result struct {
	survivors []mutant
	tested    int
	late      int // those that did not end in time; they count as noticed
}

// test builds the package's tests with all mutants in them, runs them for each mutant, and
// returns those with which all tests pass.
func (p *pkg) test(ctx context.Context, jobs int, only selection) (out result, err error) {
	dir, err := os.MkdirTemp("", "fairlead-mutants-")
	if err != nil {
		return out, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, err := p.build(ctx, dir)
	if err != nil {
		return out, err
	}
	began := time.Now()
	if text, err := p.tests(ctx, binary, 0, time.Hour); err != nil {
		return out, fmt.Errorf("the tests fail without any mutant: %w\n%s", err, text)
	}
	limit := patience*time.Since(began) + 20*time.Second

	var mu sync.Mutex
	var working sync.WaitGroup
	next := make(chan mutant)
	for range jobs {
		working.Go(func() {
			for m := range next {
				_, err := p.tests(ctx, binary, m.ID, limit)
				mu.Lock()
				switch {
				case err == nil:
					out.survivors = append(out.survivors, m)
				case errors.Is(err, context.DeadlineExceeded):
					out.late++
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range p.mutants {
		if only.has(&m) {
			out.tested++
			next <- m
		}
	}
	close(next)
	working.Wait()
	slices.SortFunc(out.survivors, func(a, b mutant) int { return a.ID - b.ID })
	return out, ctx.Err()
}

// build writes the files with the mutants beside the tree, and compiles the tests with them.
func (p *pkg) build(ctx context.Context, dir string) (binary string, err error) {
	replace := map[string]string{}
	files := map[string][]byte{filepath.Join(p.dir, "mutants_selected.go"): fmt.Appendf(nil, selector, p.name)}
	for path, text := range p.files {
		files[path] = text
	}
	for path, text := range files {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[absolute] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[absolute], text, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "tests")
	_, err = output(exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./"+p.dir))
	return binary, err
}

// tests runs the tests with one mutant. The first that fails ends them.
func (p *pkg) tests(ctx context.Context, binary string, number int, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, "prlimit", append([]string{"--as=" + strconv.Itoa(memory), binary, "-test.failfast"}, p.flags...)...)
	c.Dir = p.dir
	c.Env = append(os.Environ(), variable+"="+strconv.Itoa(number), "GOMAXPROCS=2")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = time.Second
	err := c.Run()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.Bytes(), err
}
