//go:build !linux

package backup

import "errors"

// exchange is not supported here.
func exchange(_, _ string) error { return errors.ErrUnsupported }
