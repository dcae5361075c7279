// Package patience bounds how long a person waits for what usually takes a moment. On a machine that is busy with
// tests, a moment is longer: tests stretch all of these times at once.
package patience

import "time"

var factor time.Duration = 1

// For returns how long to wait for something that usually takes less than d.
func For(d time.Duration) time.Duration { return d * factor }

// Stretch multiplies all times. Only a test program calls it, before anything waits.
func Stretch(by int) { factor = time.Duration(by) }
