package vfs

import (
	"context"

	"kernos/kernel"
)

type deleteInput struct {
	URI       string `json:"uri" jsonschema:"minLength=1,example=os://memory/notes/today.md" jsonschema_description:"File or directory to delete."`
	Recursive bool   `json:"recursive,omitempty" jsonschema_description:"true: delete a directory with everything in it. Otherwise it must be empty."`
}

type deleteOutput struct {
	Success bool `json:"success" jsonschema_description:"True: it is deleted. A failure is an error message."`
}

var remove = kernel.DefineCommand[deleteInput, deleteOutput](kernel.Definition{
	Type:    "VFS.Delete",
	Summary: "Delete a file or a directory of the os:// tree.",
	Effect:  kernel.External,
})

func (t *Tree) deleteCall(ctx context.Context, in deleteInput) (deleteOutput, error) {
	err := t.Delete(ctx, in.URI, in.Recursive)
	return deleteOutput{Success: err == nil}, err
}
