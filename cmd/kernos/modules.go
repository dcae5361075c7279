package main

import (
	"errors"
	"log/slog"
	"time"

	"kernos/capability/history"
	"kernos/capability/introspect"
	"kernos/capability/lifecycle"
	"kernos/capability/register"
	"kernos/kernel"
)

// modules is the list of what kernos serves. A new capability is one line here.
func modules(r *kernel.Registry, s *state, life lifecycle.Options, v view) ([]kernel.Module, error) {
	life.Registry = r
	outside, err := s.outsideModules(r, v)
	return append(outside,
		introspect.Module(r),
		lifecycle.Module(life),
		register.Module(r, nil),
		s.memory.Module(),
		history.Module(s.journal),
	), err
}

// registry returns a registry with all modules.
func registry(s *state, life lifecycle.Options, v view) (*kernel.Registry, error) {
	r, err := kernel.NewRegistry()
	if err != nil {
		return nil, err
	}
	all, err := modules(r, s, life, v)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if err := r.Add(m); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// allSyscalls returns a registry of all modules for those who look at definitions only.
func allSyscalls() (*kernel.Registry, error) {
	s, err := findState(operatorLog(new(slog.LevelVar)), defaultRetention, &defaultOutside)
	if err != nil {
		return nil, err
	}
	r, err := registry(s, lifecycle.Options{}, view{started: time.Now()})
	return r, errors.Join(err, s.leave())
}
