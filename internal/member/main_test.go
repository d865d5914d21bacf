package member_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if bind := os.Getenv(victimVar); bind != "" {
		victim(bind)
		return
	}
	goleak.VerifyTestMain(m)
}
