package native

import "fairlead.io/internal/compat"

// Voice is plain: an event says what the reason says.
func (Dialect) Voice() compat.Voice { return compat.PlainVoice{} }
