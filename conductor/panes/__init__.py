"""Panes: tmux, delivery of prompts, supervision, layout."""
