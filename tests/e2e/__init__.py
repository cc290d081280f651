"""End-to-end tests: the whole conductor with real git, real tmux and scripted agents."""
