// Package write has what the agent's writers of objects have in common: they write
// in their own time, not too often, and try again what failed. The agent's loop
// never waits for them.
package write
