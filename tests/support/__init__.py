"""Helpers that tests share: waiting, private tmux servers, git repositories."""
