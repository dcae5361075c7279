package engine_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kernos/capability/script/engine"
)

// TestASpoiledCacheIsMadeAnew: a power cut may leave half of a file, or zeros.
func TestASpoiledCacheIsMadeAnew(t *testing.T) {
	code, err := os.ReadFile("testdata/wasm/echo.wasm") // QuickJS would take seconds to compile
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func() error {
		e := engine.New(&engine.Options{Cache: dir})
		defer func() { _ = e.Close() }()
		p := e.Load(engine.Source{Name: "Test.Wasm", Language: "wasm", Code: base64.StdEncoding.EncodeToString(code)})
		_, err := e.Run(context.Background(), p, json.RawMessage(`{"a":1}`), &host{}, engine.Limits{})
		return err
	}
	if err := run(); err != nil { // fills the cache
		t.Fatal(err)
	}
	for _, spoil := range []func(name string, size int64) error{
		func(name string, size int64) error { return os.Truncate(name, size/2) },
		func(name string, size int64) error { return os.WriteFile(name, make([]byte, size), 0o600) },
	} {
		files := 0
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			info, err := d.Info()
			if err != nil {
				return err
			}
			return spoil(name, info.Size())
		})
		if err != nil || files == 0 {
			t.Fatalf("%d files, %v", files, err)
		}
		if err := run(); err != nil {
			t.Error(err)
		}
	}
}

// TestAnInvalidModuleLeavesTheCache: what was compiled before isn't compiled again because of it.
func TestAnInvalidModuleLeavesTheCache(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := engine.New(&engine.Options{Cache: filepath.Dir(kept)})
	defer func() { _ = e.Close() }()
	if _, err := e.Compile(context.Background(), engine.Source{Name: "Test.Code", Language: "wasm", Code: "AGFzbQEAAAD/"}); err == nil {
		t.Error("An invalid module was compiled")
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
