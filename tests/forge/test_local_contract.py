"""The local forge keeps the contracts of the ports."""

from __future__ import annotations

from tests.forge.contract import ForgeContract
from tests.forge.review_contract import ReviewContract


class TestLocalForge(ForgeContract):
    """Every test of the contract, on the local forge (``make_stage`` of conftest)."""


class TestLocalReviews(ReviewContract):
    """The review loops' side of it."""
