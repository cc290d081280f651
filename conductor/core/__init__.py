"""The rules, pure: no clock, no chance, no files, no processes. Facts come in as events, effects go out."""
