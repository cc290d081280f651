"""Worktrees, commit history and recovery refs, through git."""
