package bot

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"tgbridge/internal/secret"
)

// newBusSecret makes the secret of a member's bus: 32 random bytes.
func newBusSecret() (secret.Secret, error) {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		return secret.Secret{}, fmt.Errorf("make bus secret: %w", err)
	}
	return secret.New(hex.EncodeToString(b[:])), nil
}
