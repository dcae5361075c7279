//go:build !linux

package dirfs

import "os"

// beneath says nothing: os.Root is asked.
func beneath(*os.File, string) (state, bool) { return state{}, false }

// openBeneath opens nothing: os.Root does.
func openBeneath(*os.File, string) (*os.File, bool) { return nil, false }
