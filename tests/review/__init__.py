"""Tests of the review: real git repositories, real scanners, real test runs."""
