package main

import (
	"kernos/capability/history"
	"kernos/capability/introspect"
	"kernos/capability/lifecycle"
	"kernos/capability/register"
	"kernos/kernel"
)

// modules is the list of what kernos serves. A new capability is one line here.
func modules(r *kernel.Registry, s *state, life lifecycle.Options) []kernel.Module {
	life.Registry = r
	return []kernel.Module{
		introspect.Module(r),
		lifecycle.Module(life),
		register.Module(r, nil),
		s.memory.Module(),
		history.Module(s.journal),
	}
}

// registry returns a registry with all modules.
func registry(s *state, life lifecycle.Options) (*kernel.Registry, error) {
	r, err := kernel.NewRegistry()
	if err != nil {
		return nil, err
	}
	for _, m := range modules(r, s, life) {
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
	return registry(s, lifecycle.Options{})
}
