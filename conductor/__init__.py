"""The conductor: decides what each pane's work needs next, has it done, and remembers it."""
