"""The local forge keeps the contract of the port."""

from __future__ import annotations

from tests.forge.contract import ForgeContract


class TestLocalForge(ForgeContract):
    """Every test of the contract, on the local forge (``make_stage`` of conftest)."""
