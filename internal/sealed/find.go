package sealed

import "strings"

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// In reports whether a text holds something that begins like a sealed string.
func In(text string) bool { return strings.Contains(text, Prefix) }

// Replace returns the text with every sealed string in it replaced by what open returns for
// it, as in "Bearer pwenc:v1:…". A sealed string goes as far as base64url does; padding does
// not belong to one, and is given to open with it, to be refused and not left standing. If
// open fails, so does Replace, and there is no text.
func Replace(text string, open func(sealed string) ([]byte, error)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, Prefix)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		end := len(rest) - len(strings.TrimLeft(strings.TrimLeft(rest, alphabet), "="))
		plaintext, err := open(Prefix + rest[:end])
		if err != nil {
			return "", err
		}
		out.Write(plaintext)
		text = rest[end:]
	}
}
