"""Forges: where pull requests, checks and reviews live."""
