// Command setup installs what tests need and this machine lacks: make setup runs it. With -check, it fails where
// something is still missing. With -skipped FILE, it prints what a run of tests has skipped for want of a tool.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"

	"kernos/internal/testkit/tool"
)

func main() {
	log.SetFlags(0)
	skipped := flag.String("skipped", "", "the file in which tests have written what they lack")
	check := flag.Bool("check", false, "fail where something is missing")
	flag.Parse()
	var err error
	switch {
	case *skipped != "":
		err = report(*skipped)
	case *check:
		err = complete()
	default:
		err = install(tool.Here())
	}
	if err != nil {
		log.Fatal(err)
	}
}

func report(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, err := tool.Summary(f, tool.Here())
	fmt.Print(text)
	return err
}

// install installs packages. What npm installs isn't one: make npm does that.
func install(system *tool.System) error {
	missing := tool.Missing()
	packages := system.Packages(missing)
	switch {
	case len(packages) == 0 && system.Installs():
		return nil
	case !system.Installs():
		return complete() // its error names what is to be installed by hand
	}
	for _, command := range system.Commands(packages) {
		fmt.Println(strings.Join(command, " "))
		c := exec.Command(command[0], command[1:]...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
		}
	}
	return nil
}

// complete reports what is missing.
func complete() error {
	var lacks []string
	for _, t := range tool.Missing() {
		lacks = append(lacks, fmt.Sprintf("%s, for %s", t.Name, t.Why))
	}
	if lacks == nil {
		return nil
	}
	return errors.New("these are still missing:\n  " + strings.Join(lacks, "\n  "))
}
