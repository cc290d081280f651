"""The review loops as pure rules: which state a pull request's loops are in, what may follow, what to do next.

Each interpreter is an ordered table of rules over a snapshot in normal form (``schemas.loops``), and each graph is
data. docs/loops.md is generated from both.
"""
