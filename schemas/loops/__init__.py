"""The words of the review loops: snapshots, routing, plans, merged reviews, checkpoints.

Light on purpose (docs/decisions/0018): named tuples and tables of fields, no pydantic, so that a detector starts at
once and reads thousands of snapshots a second. JSON names are camelCase, attributes are snake_case.
"""
