package chat

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"kernos/message"
)

// maxInside is how many bytes of files stand in an input; more are kept where the kernel finds them.
const maxInside = 256 << 10

// maxFile is how large a file may be: no kernel keeps a larger one.
const maxFile = 64 << 20

// attached returns the files that a text names as @path. A word of which no file has the name is a word.
// Keep puts a large file where the kernel finds it; nil if large files aren't supported.
func attached(text string, keep func(io.Reader) (message.BlobPointer, error)) (files []file, err error) {
	inside := 0
	for _, word := range strings.Fields(text) {
		path, named := strings.CutPrefix(word, "@")
		if !named || path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil { // punctuation may follow it
			path = strings.TrimRightFunc(path, unicode.IsPunct)
			if info, err = os.Stat(path); err != nil {
				continue
			}
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("@%s isn't a file; name one of its files, or leave @ out", path)
		}
		if info.Size() > maxFile {
			return nil, fmt.Errorf("@%s has more than %d MB, which is the most that a file of a message can have", path, maxFile>>20)
		}
		f := file{Filename: filepath.Base(path)}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if f.MimeType, _, err = mime.ParseMediaType(mime.TypeByExtension(filepath.Ext(path))); err != nil {
			f.MimeType, _, _ = mime.ParseMediaType(http.DetectContentType(data))
		}
		if inside += len(data); inside <= maxInside {
			f.Data = base64.StdEncoding.EncodeToString(data)
		} else if keep == nil {
			return nil, fmt.Errorf("the files of a message have more than %d KB with @%s, and the server is elsewhere; send less", maxInside>>10, path)
		} else {
			at, err := keep(bytes.NewReader(data))
			if err != nil {
				return nil, errors.Join(fmt.Errorf("@%s can't be sent", path), err)
			}
			f.DataRef = &at
		}
		files = append(files, f)
	}
	return files, nil
}

// title returns the title of a session that begins with a text.
func title(text string) string {
	words := []rune(strings.Join(strings.Fields(text), " "))
	if len(words) > 60 {
		return string(words[:59]) + "…"
	}
	return string(words)
}
