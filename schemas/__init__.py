"""The words that the conductor, its workers and other programs share: frozen pydantic models, no I/O.

Each published contract also exists as a JSON Schema file under ``schemas/json``, generated from these models.
"""
