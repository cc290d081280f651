"""File, process and git helpers that worker and conductor share."""
