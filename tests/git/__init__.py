"""Tests of the git side, on real repositories."""
