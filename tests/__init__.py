"""The tests. They mirror the packages; tests/support holds what several of them use."""
