"""What is known about each kind of agent program, one module a kind."""
