package main

import (
	"kernos/capability/history"
	"kernos/capability/introspect"
	"kernos/kernel"
)

// modules is the list of what kernos serves. A new capability is one line here.
func modules(r *kernel.Registry, s *state) []kernel.Module {
	return []kernel.Module{
		introspect.Module(r),
		s.memory.Module(),
		history.Module(s.journal),
	}
}

// registry returns a registry with all modules.
func registry(s *state) (*kernel.Registry, error) {
	r, err := kernel.NewRegistry()
	if err != nil {
		return nil, err
	}
	for _, m := range modules(r, s) {
		if err := r.Add(m); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// allSyscalls returns a registry of all modules for those who look at definitions only.
func allSyscalls() (*kernel.Registry, error) {
	s, err := findState(operatorLog(), defaultRetention)
	if err != nil {
		return nil, err
	}
	return registry(s)
}
