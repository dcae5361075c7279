//go:build ignore

// Generate writes the files of the console.
package main

import (
	"log"
	"os"
	"path/filepath"

	"kernos/console/build"
)

func main() {
	log.SetFlags(0)
	files, err := build.Build(".")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.RemoveAll("dist"); err != nil {
		log.Fatal(err)
	}
	for name, body := range files {
		path := filepath.Join("dist", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, body, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
