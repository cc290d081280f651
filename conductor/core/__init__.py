"""The rules, pure: no clock, no chance, no files, no processes. Events come in, effects go out as values."""
