package bfd

import (
	"testing"

	"fairlead.io/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
