//go:build cgo

package server

// daemonGarbage is how much garbage a daemon may have, in percent of what is alive. Pebble's cache and
// tables aren't memory of Go in a program that is built with a C compiler. A daemon under load takes 10 MB more with 200
// than with 100, and a tenth less processor time per message.
const daemonGarbage = 200
