"""The command line: one module a verb, loaded only when it is called."""
