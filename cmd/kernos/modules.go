package main

import (
	"kernos/capability/introspect"
	"kernos/kernel"
)

// modules is the list of what kernos serves. A new capability is one line here.
func modules(r *kernel.Registry) []kernel.Module {
	return []kernel.Module{
		introspect.Module(r),
	}
}

// registry returns a registry with all modules.
func registry() (*kernel.Registry, error) {
	r, err := kernel.NewRegistry()
	if err != nil {
		return nil, err
	}
	for _, m := range modules(r) {
		if err := r.Add(m); err != nil {
			return nil, err
		}
	}
	return r, nil
}
