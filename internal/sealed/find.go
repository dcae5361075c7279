package sealed

import (
	"bytes"
	"strings"

	"kernos/internal/secret"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Line returns an opened secret without the line break at its end. A file that was sealed may have one, and a header can't.
func Line(plain []byte) []byte { return bytes.TrimRight(plain, "\r\n") }

// Begins reports whether a text begins like a sealed string.
func Begins(text string) bool { return secret.IsSealed([]byte(text)) }

// In reports whether a text holds something that begins like a sealed string.
func In(text string) bool { return find(text) >= 0 }

// find returns where the first sealed string in a text begins, or -1.
func find(text string) int {
	free, bound := strings.Index(text, secret.SealedPrefix), strings.Index(text, secret.BoundPrefix)
	if free < 0 || bound >= 0 && bound < free {
		return bound
	}
	return free
}

// Replace returns the text with every sealed string in it replaced by what open returns for
// it, as in "Bearer pwenc:v1:…". A sealed string goes as far as base64url does; padding does
// not belong to one, and is given to open with it, to be refused and not left standing. If
// open fails, so does Replace, and there is no text.
func Replace(text string, open func(sealed string) ([]byte, error)) (string, error) {
	var out strings.Builder
	for {
		at := find(text)
		if at < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		out.WriteString(text[:at])
		rest := text[at:]
		end := len(rest) - len(strings.TrimLeft(strings.TrimLeft(rest[len(secret.SealedPrefix):], alphabet), "="))
		plaintext, err := open(rest[:end])
		if err != nil {
			return "", err
		}
		out.Write(plaintext)
		text = rest[end:]
	}
}
