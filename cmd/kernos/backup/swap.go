package backup

import (
	"errors"
	"os"
)

// swap puts the directory fresh in the place of dir, which gets the name aside. Where the file
// system can exchange two names, this is one step: there is always a state in the place, the
// old one or the new one, and the old one never has a temporary name.
func swap(fresh, dir, aside string, exchange func(a, b string) error) error {
	if err := os.Rename(fresh, aside); err != nil {
		return err
	}
	err := exchange(aside, dir)
	if err == nil {
		return nil
	}
	if back := os.Rename(aside, fresh); back != nil || !errors.Is(err, errors.ErrUnsupported) {
		return errors.Join(err, back)
	}
	if err := os.Rename(dir, aside); err != nil {
		return err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return errors.Join(err, os.Rename(aside, dir))
	}
	return nil
}
