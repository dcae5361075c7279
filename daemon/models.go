package daemon

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"kernos/capability/model"
	"kernos/message"
)

// modelKeys is the folder of the memory with the settings of language models.
const modelKeys = "models"

// models returns the settings of the capability model. The settings of models are the owner's, and
// are read with the owner's rights.
func (s *state) models(o *Options) *model.Options {
	return &model.Options{
		Read: func(name string) (json.RawMessage, error) {
			text, _, _, err := s.memory.Get(context.Background(), modelKeys+"/"+name)
			return text, err
		},
		Names: func() ([]string, error) {
			return s.memory.List(context.Background(), modelKeys, "", maxModels, false)
		},
		Write: func(ctx context.Context, name string, settings json.RawMessage, isNew bool) error {
			return s.memory.Put(ctx, modelKeys+"/"+name, settings, isNew)
		},
		Delete: func(ctx context.Context, name string) error { return s.memory.Delete(ctx, modelKeys+"/"+name) },
		Seal:   s.keys.Seal, Configured: o.Models, BuiltIn: func(t message.Type) bool { return s.process.Registry.BuiltIn(t) }, Client: s.asking, Open: s.keys.Open, Resolve: s.resolve, Blobs: s,
		Cassettes: filepath.Join(s.home.Dir, "cassettes"), Log: o.Log,
	}
}

// maxModels is how many models of the memory are listed.
const maxModels = 1000

// configuredModels counts the models that have settings, if the store is open. It does not open it.
func (d *Daemon) configuredModels() int {
	if !d.state.isOpen() {
		return 0
	}
	o := d.state.models(&d.opts)
	names, err := o.Names()
	if err != nil {
		d.opts.Log.Warn("models can't be counted", "error", err)
	}
	n := len(names)
	for name := range o.Configured {
		if !slices.Contains(names, name) {
			n++
		}
	}
	return n
}
