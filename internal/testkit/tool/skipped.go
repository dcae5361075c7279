package tool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// record adds a line per missing tool to the file that make reads after the tests. Its name is another one in each
// run, so that go test doesn't take a skipped test from its cache: the summary would lack it.
func record(test string, missing []string) error {
	name := os.Getenv(skipped)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, name := range missing {
		fmt.Fprintf(&lines, "%s\t%s %s\n", name, filepath.Base(os.Args[0]), test)
	}
	_, err = f.WriteString(lines.String()) // one write, as other processes write into the file, too
	return errors.Join(err, f.Close())
}

// Summary describes what a run of tests has skipped: which tool is missing, how many tests need it, and how to get it.
// It is empty if no test was skipped.
func Summary(lines io.Reader, system *System) (string, error) {
	tests, needing := make(map[string]bool), make(map[string]map[string]bool)
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		name, test, ok := strings.Cut(scanner.Text(), "\t")
		if !ok {
			return "", fmt.Errorf("%q isn't a tool and a test", scanner.Text())
		}
		tests[test] = true
		if needing[name] == nil {
			needing[name] = make(map[string]bool)
		}
		needing[name][test] = true
	}
	if err := scanner.Err(); err != nil || len(tests) == 0 {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "Skipped %s for want of a tool. make setup installs all of them, as here one by one:\n", count(len(tests)))
	for _, tool := range List() {
		if n := len(needing[tool.Name]); n > 0 {
			fmt.Fprintf(&text, "  %-12s %-10s %s\n", tool.Name, count(n), system.Remedy(&tool))
		}
	}
	return text.String(), nil
}

func count(tests int) string {
	if tests == 1 {
		return "1 test"
	}
	return fmt.Sprint(tests, " tests")
}
