"""Panes on real tmux servers of their own."""
