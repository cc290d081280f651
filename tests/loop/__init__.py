"""Tests of the loop, with the outside played in memory."""
