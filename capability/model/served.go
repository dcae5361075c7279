package model

import (
	"context"

	"kernos/message"
)

// served is the dialect syscall: a program generates.
func served(ctx context.Context, m *models, g *generation, a *answer) error {
	return message.Errorf(501, "not yet")
}
