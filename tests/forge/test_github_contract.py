"""The github forge keeps the contracts of the ports: the real gh and git against a stand-in for GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forge.contract import ForgeContract
from tests.forge.github_stage import GithubStages, github_stages
from tests.forge.review_contract import ReviewContract
from tests.github import schema

pytestmark = pytest.mark.skipif(not schema.available(), reason=schema.MISSING)


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[GithubStages]:
    """Stages on GitHub instead of the local forge."""
    with github_stages(tmp_path) as stages:
        yield stages


class TestGithubForge(ForgeContract):
    """Every test of the contract, on GitHub."""


class TestGithubReviews(ReviewContract):
    """The review loops' side of it."""
