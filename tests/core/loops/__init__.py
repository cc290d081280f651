"""The review loops as rules: worked examples, properties, every pair of states."""
