"""The rules, pure: decisions over values, without clock, chance or I/O."""
