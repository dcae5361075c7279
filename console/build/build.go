// Package build makes the files of the console from its source, in memory.
package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// modules are the libraries that the source imports, by their names, in the folder third_party.
var modules = map[string]string{
	"preact":                "preact.mjs",
	"preact/hooks":          "preact-hooks.mjs",
	"preact/jsx-runtime":    "preact-jsx-runtime.mjs",
	"@preact/signals-core":  "signals-core.mjs",
	"@preact/signals":       "signals.mjs",
	"@cfworker/json-schema": "json-schema/index.js",
}

// copied are the files that are served as they are, by their names there.
var copied = map[string]string{
	"index.html":       "src/index.html",
	"geist.woff2":      "third_party/geist.woff2",
	"geist-mono.woff2": "third_party/geist-mono.woff2",
}

// Build returns the files of the console whose folder is given, by their names.
func Build(folder string) (map[string][]byte, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	alias := make(map[string]string)
	for name, file := range modules {
		alias[name] = filepath.Join(folder, "third_party", file)
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: folder,
		EntryPoints:   []string{"src/app.tsx", "src/app.css"},
		Outdir:        "dist",
		ChunkNames:    "[name]-[hash]",
		Alias:         alias,
		Bundle:        true, Splitting: true, Write: false,
		Format: api.FormatESModule, Target: api.ES2022, Charset: api.CharsetUTF8,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		External:         []string{"*.woff2"},
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		LegalComments: api.LegalCommentsNone, // LICENSES has them
		LogLevel:      api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		var errs []error
		for _, text := range api.FormatMessages(result.Errors, api.FormatMessagesOptions{}) {
			errs = append(errs, errors.New(strings.TrimSpace(text)))
		}
		return nil, errors.Join(errs...)
	}
	files := make(map[string][]byte)
	for _, f := range result.OutputFiles {
		name, err := filepath.Rel(filepath.Join(folder, "dist"), f.Path)
		if err != nil {
			return nil, err
		}
		files[filepath.ToSlash(name)] = f.Contents
	}
	for name, source := range copied {
		text, err := os.ReadFile(filepath.Join(folder, source))
		if err != nil {
			return nil, err
		}
		if files[name] != nil {
			return nil, fmt.Errorf("%s is made twice", name)
		}
		files[name] = text
	}
	return files, nil
}
