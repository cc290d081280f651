"""Worktrees and branches. Adapters of the Worktrees port."""
