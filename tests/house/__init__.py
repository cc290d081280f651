"""Tests of the tree itself: import contracts, house rules, lock files and the scripts."""
