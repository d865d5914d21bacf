package member_test

import (
	"os"
	"testing"

	"fairlead.io/test/kit/leak"
)

func TestMain(m *testing.M) {
	if bind := os.Getenv(victimVar); bind != "" {
		victim(bind)
		return
	}
	leak.Main(m)
}
