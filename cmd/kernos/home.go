package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	systemcalls "golang.org/x/sys/unix"

	"kernos/cmd/kernos/exit"
)

// A wrongHome is the error of a home directory that can't be one.
type wrongHome struct {
	home   string
	reason string
}

func (e *wrongHome) Error() string {
	return fmt.Sprintf("the home of kernos, %s, %s; set KERNOS_HOME to another directory", e.home, e.reason)
}

// checkHome finds out whether a home directory can be one. One that is not there can be, if
// nothing is in its way; what is made of it is made when something is kept there. The error is
// a *wrongHome.
func checkHome(home string) error {
	dir, info, err := nearestDirectory(home)
	reason := ""
	switch {
	case err != nil:
		reason = fmt.Sprintf("can't be looked at: %v", err)
	case info.IsDir():
		return nil
	case dir == home:
		reason = "is not a directory"
	default:
		reason = fmt.Sprintf("can't be made: %s is not a directory", dir)
	}
	return &exit.Error{Status: exit.Usage, Cause: &wrongHome{home: home, reason: reason}}
}

// makeHome makes the home directory, if it is not there.
func makeHome(home string) error {
	if err := checkHome(home); err != nil {
		return err
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return &exit.Error{Status: exit.Usage, Cause: &wrongHome{home: home, reason: fmt.Sprintf("can't be made: %v", err)}}
	}
	return nil
}

// nearestDirectory returns what is at a path or, if nothing is, at the nearest one above it.
func nearestDirectory(path string) (dir string, info fs.FileInfo, err error) {
	for dir = path; ; dir = filepath.Dir(dir) {
		info, err = os.Stat(dir)
		if err == nil || dir == filepath.Dir(dir) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return dir, info, err
		}
	}
}

// checkHome looks whether state can be kept in the home directory.
func (d *doctor) checkHome() bool {
	if d.local == nil {
		return true
	}
	dir, _, err := nearestDirectory(d.local.home)
	if err == nil {
		err = systemcalls.Access(dir, systemcalls.W_OK|systemcalls.X_OK)
	}
	_, storeErr := os.Stat(filepath.Join(d.local.dir, "store"))
	return d.judgeHome(dir == d.local.home, storeErr == nil, err)
}

// judgeHome says of a home directory what is wrong with it, if an error keeps this user from
// writing to it or, if it is not there, from making it.
func (d *doctor) judgeHome(there, kept bool, err error) bool {
	const advice = "allow this user to write there, or set KERNOS_HOME to another directory"
	switch home := d.local.home; {
	case err == nil && there:
		d.well("home", "%s can be written", home)
	case err == nil:
		d.well("home", "%s is made when it is needed", home)
	case kept:
		d.doubtful("home", advice, "%s can only be read, so nothing there changes: %v", home, err)
	case there:
		d.unreachable = true
		d.wrong("home", advice, "%s can't be written: %v", home, err)
		return false
	default:
		d.unreachable = true
		d.wrong("home", advice, "%s is not there and can't be made: %v", home, err)
		return false
	}
	return true
}
