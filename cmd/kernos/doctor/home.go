package doctor

import (
	"os"

	systemcalls "golang.org/x/sys/unix"

	"kernos/cmd/kernos/settings"
)

// checkHome checks that state can be kept in the home directory.
func (d *doctor) checkHome() bool {
	if d.Daemon == nil {
		return true
	}
	dir, _, err := d.Daemon.Nearest()
	if err == nil {
		err = systemcalls.Access(dir, systemcalls.W_OK|systemcalls.X_OK)
	}
	_, storeErr := os.Stat(d.Daemon.Store())
	return d.judgeHome(dir == d.Daemon.Dir, storeErr == nil, err)
}

// judgeHome reports what is wrong with a home directory, if an error keeps this user from
// writing to it or, if it doesn't exist, from creating it.
func (d *doctor) judgeHome(there, kept bool, err error) bool {
	const advice = "allow this user to write there, or set KERNOS_HOME to another directory"
	switch home := d.Daemon.Dir; {
	case err == nil && there:
		d.well("home", "%s can be written", home)
	case err == nil:
		d.well("home", "%s will be created when it is needed", home)
	case kept:
		d.doubtful("home", advice, "%s can only be read, so nothing there changes: %v", home, err)
	case there:
		return d.unreached("home", advice, "%s can't be written: %v", home, err)
	default:
		return d.unreached("home", advice, "%s doesn't exist and can't be created: %v", home, err)
	}
	return true
}

// checkSettings checks that a daemon could start with the settings as they are. One that runs may
// have been started with others, so the other checks follow in any case.
func (d *doctor) checkSettings() bool {
	if d.Daemon == nil {
		return true
	}
	if err := settings.Check(); err != nil {
		d.wrong("settings", "correct it: the daemon can't be started with it", "%v", err)
	} else {
		d.well("settings", "the daemon can be started with the variables, config.yaml and the token file")
	}
	return true
}

// checkTrusted reports on the folders that the owner trusts.
func (d *doctor) checkTrusted() bool {
	if d.Daemon == nil {
		return true
	}
	folders, err := d.Daemon.Trusted()
	if err != nil {
		d.wrong("trusted", "correct the file, or its mode", "%v", err)
	}
	for _, f := range folders {
		switch {
		case f.Problem != "":
			d.wrong("trusted", "correct that, or take the trust back with kernos untrust "+f.Path, "%s isn't used: %s", f.Path, f.Problem)
		case f.Execute:
			d.well("trusted", "%s: its folder os is a part of os://, and its tools are executed", f.Path)
		default:
			d.well("trusted", "%s: its folder os is a part of os://", f.Path)
		}
	}
	return true
}
