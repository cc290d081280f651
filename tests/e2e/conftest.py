"""Fixtures of the end-to-end tests."""

from tests.support.fleet import fleet_world

__all__ = ["fleet_world"]
