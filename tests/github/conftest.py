"""The fixtures of the stand-in's own tests."""

from tests.github.fixtures import github, shop

__all__ = ["github", "shop"]
