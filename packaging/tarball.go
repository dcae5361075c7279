package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// A file is one that a package has.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// writeTarball writes files below one folder as a compressed archive.
func (s *source) writeTarball(target, folder string, files []file) error {
	data, err := s.tarball(folder, files)
	if err != nil {
		return err
	}
	return os.WriteFile(target, data, 0o644)
}

// tarball packs files below one folder, with the folders above them, in the order of their names. Everything belongs to
// root and has the same time, so that the same files give the same bytes.
func (s *source) tarball(folder string, files []file) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, s.compression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	add := func(h *tar.Header, data []byte) error {
		h.Name = strings.TrimSuffix(folder+"/"+h.Name, "./")
		h.Format, h.ModTime, h.Uname, h.Gname = tar.FormatUSTAR, s.time, "root", "root"
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	for _, name := range folders(files) {
		if err := add(&tar.Header{Name: name + "/", Typeflag: tar.TypeDir, Mode: 0o755}, nil); err != nil {
			return nil, err
		}
	}
	for _, f := range slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) }) {
		if err := add(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: int64(f.mode), Size: int64(len(f.data))}, f.data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), compressed.Close())
	return out.Bytes(), err
}

// folders returns the folders that files are in, each after the one that it is in. The first is ".".
func folders(files []file) []string {
	found := map[string]bool{".": true}
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			found[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// compress packs one text, as gzip -n does.
func compress(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(text)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}
