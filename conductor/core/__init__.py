"""The rules, pure: no clock, no randomness, no files, no processes. Facts come in as events, effects go out as values."""
