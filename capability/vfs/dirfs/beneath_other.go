//go:build !linux

package dirfs

import "os"

// inspectBeneath opens nothing: os.Root does.
func inspectBeneath(*os.File, string) (*os.File, bool) { return nil, false }

// openBeneath opens nothing: os.Root does.
func openBeneath(*os.File, string) (*os.File, bool) { return nil, false }
