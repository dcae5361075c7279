//go:build !linux

package dirfs

import "os"

// lookBeneath opens nothing: os.Root does.
func lookBeneath(*os.File, string) (*os.File, bool) { return nil, false }

// openBeneath opens nothing: os.Root does.
func openBeneath(*os.File, string) (*os.File, bool) { return nil, false }
