"""A stand-in for GitHub that the real gh program and the real git talk to, without a network."""
