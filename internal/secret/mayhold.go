package secret

// MayHold reports whether data may have the name of a credential in it, for [Data] and beyond.
// Nearly all data have none. It looks for rare letters that stand in each of these names, and
// only then at the letters around them.
func MayHold(data []byte) bool {
	before := uint8(0)
	for i, c := range data {
		if before&follows[c] != 0 && inName(data, i-1) {
			return true
		}
		before = rare[c]
	}
	return false
}

// rare has a bit for each of the rare letters, and follows the bits of the letters before which
// it may stand in a name.
var (
	rare = [256]uint8{
		'z': 1, 'k': 2, 'p': 4, 'c': 8, 'j': 16, 'x': 32,
		'Z': 1, 'K': 2, 'P': 4, 'C': 8, 'J': 16, 'X': 32, '\\': 64,
	}
	follows = [256]uint8{
		'a': 1 | 4, 'i': 2, 'e': 2, 'w': 4 | 16, 'r': 8, 't': 8, 'u': 64,
		'A': 1 | 4, 'I': 2, 'E': 2, 'W': 4 | 16, 'R': 8, 'T': 8,
		'-': 1 | 2 | 4 | 8 | 16 | 32, '_': 1 | 2 | 4 | 8 | 16 | 32, ' ': 1 | 2 | 4 | 8 | 16, '.': 1 | 2 | 4 | 8 | 16,
	}
)

// inName reports whether the letters around the rare one at data[i] are those of the name of a
// credential.
func inName(data []byte, i int) bool {
	switch data[i] | 0x20 {
	case 'z': // authorization
		return letterBefore(data, i) == 'i' && spells(data, i, "za")
	case 'k': // cookie, token, key
		switch letterBefore(data, i) {
		case 'o':
			return spells(data, i, "kie") || spells(data, i, "ken") && isSure(data, i, "to", sureTokens)
		case 0:
			return false
		}
		return spells(data, i, "key") && isSure(data, i, "", sureKeys)
	case 'p':
		return spells(data, i, "pass") || spells(data, i, "pwd")
	case 'c': // secret, credential, connect.sid
		return spells(data, i, "cret") || spells(data, i, "creden") || spells(data, i, "ctsid")
	case 'j':
		return spells(data, i, "jwt")
	case 'x':
		return isExtension(data[i:]) && (i == 0 || !isLetter(data[i-1]))
	}
	return true // an escape may be any letter
}

// isSure reports whether the letters before data[i] are the beginning of a noun after a word that
// makes it a credential in any data. Prose about tokens and keys doesn't have such words.
func isSure(data []byte, i int, noun string, sure []string) bool {
	var room [maxName]byte
	plain := fold(&room, data[:i])
	if !ends(plain, noun) {
		return false
	}
	before := plain[:len(plain)-len(noun)]
	return endsAny(before, sure) || ends(before, "id")
}

// letterBefore returns the letter before data[i] in lower case, 0 if there is none. It passes
// over what programs put between words.
func letterBefore(data []byte, i int) byte {
	for i--; i >= 0 && isJoint(data[i]); i-- {
	}
	if i < 0 || !isLetter(data[i]) && !isDigit(data[i]) {
		return 0
	}
	return data[i] | 0x20
}

// spells reports whether a word, in lower case, stands at data[i] in any case, with anything
// between its letters that programs put between words.
func spells(data []byte, i int, word string) bool {
	for n := 0; n < len(word); i++ {
		switch {
		case i == len(data):
			return false
		case data[i]|0x20 == word[n]:
			n++
		case n == 0 || !isJoint(data[i]):
			return false
		}
	}
	return true
}
