// Package attack is the proof of docs/SECURITY.md: its tests open a whole daemon, with a TCP
// door and tokens, and attack it as a stranger, as a web page, and as the holder of a token
// that wants more than it was given.
//
// What each preset may call is written in testdata/rights.txt by hand, and not derived from
// the package that decides it. make test runs the attacks for seconds, make attack at length:
//
//	go test ./internal/attack -long
package attack
