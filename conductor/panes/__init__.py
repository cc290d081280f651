"""Panes: the terminals in which workers run. Adapters of the Panes port."""
