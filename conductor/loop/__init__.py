"""Observe, journal, decide, intend, perform, record."""
