"""Forges: where pull requests live. Adapters of the Forge port."""
