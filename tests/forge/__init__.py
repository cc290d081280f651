"""Forges: one contract, and what is special about each."""
