"""Fixtures of the end-to-end tests."""

from tests.panes.conftest import bench, make_panes
from tests.support.fleet import fleet_world

__all__ = ["bench", "fleet_world", "make_panes"]
