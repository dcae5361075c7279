package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"kernos/daemon"
	"kernos/internal/exit"
	"kernos/store"
)

// Home returns the home and the origin that the environment names. It may not exist.
func Home() (daemon.Home, error) {
	dir, err := homeDirectory()
	if err != nil {
		return daemon.Home{}, &exit.Error{Status: exit.Usage, Cause: err}
	}
	origin, err := store.ParseOrigin(os.Getenv("KERNOS_ORIGIN"))
	if err != nil {
		return daemon.Home{}, &exit.Error{Status: exit.Usage, Cause: err}
	}
	return daemon.FindHome(dir, origin)
}

// UsableHome is Home for a home that can be used: it exists, or can be made.
func UsableHome() (daemon.Home, error) {
	h, err := Home()
	if err == nil {
		err = Explain(h.Check())
	}
	return h, err
}

// IsDefault reports whether a home is the one that a command has without KERNOS_HOME and KERNOS_ORIGIN.
func IsDefault(h daemon.Home) bool {
	dir, err := defaultDirectory()
	return err == nil && filepath.Clean(dir) == h.Dir && h.Origin == store.DefaultOrigin
}

// homeDirectory returns the directory where kernos keeps its state.
func homeDirectory() (string, error) {
	if home := os.Getenv("KERNOS_HOME"); home != "" {
		return home, nil
	}
	return defaultDirectory()
}

// defaultDirectory is homeDirectory without KERNOS_HOME.
func defaultDirectory() (string, error) {
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "kernos"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory for kernos: set KERNOS_HOME: %w", err)
	}
	return filepath.Join(home, ".local", "share", "kernos"), nil
}

// Explain gives an error of package daemon the exit status and the words of the command line.
func Explain(err error) error {
	if option, ok := errors.AsType[*daemon.OptionError](err); ok {
		return &exit.Error{Status: exit.Usage, Cause: fmt.Errorf("--%s: %w", option.Name, option.Err)}
	}
	if home, ok := errors.AsType[*daemon.HomeError](err); ok {
		return &exit.Error{Status: exit.Usage, Cause: home}
	}
	if address, ok := errors.AsType[*daemon.AddressError](err); ok {
		err = fmt.Errorf("%w; choose another one with --addr or KERNOS_ADDR, or none with --no-http", address)
	}
	return exit.Wrap(err)
}
