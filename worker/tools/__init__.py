"""What both sides use to touch the machine: files replaced whole, processes with limits, git."""
