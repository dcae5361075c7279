// Package namespace names the namespaces of Memory with rules of their own. A namespace is the first segment of a key.
package namespace

// The reserved namespaces.
const (
	Vault = "vault" // sealed strings only
	Proc  = "proc"  // read-only
	Sys   = "sys"   // single-line values
)

// Models is the folder with the settings of language models. Its keys are ordinary ones, but for
// who may write them.
const Models = "models"
