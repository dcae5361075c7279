// Package archtest checks that imports point down the floors of the house, and never
// sideways.
package archtest
