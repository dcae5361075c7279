// Package mcp runs the Model Context Protocol's own suites, its Inspector and a scripted client against
// a whole Kernos. Everything is in its tests; `make npm` installs what they need.
package mcp
