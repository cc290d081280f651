"""The loop: observe, journal, decide, intend, perform, record."""
