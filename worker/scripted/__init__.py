"""The scripted agent: a small terminal program that stands in for a coding agent and does what a script
file says.

It has a composer, asks for leave and for trust, records receipts by the hook command, works with real git
and the real ``taskmaestro`` verbs, and misbehaves on demand. For demonstrations and for tests of
everything around agents.
"""
