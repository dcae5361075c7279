package session_test

import "kernos/schema"

var anyObject = schema.Written(`{"type":"object"}`)
