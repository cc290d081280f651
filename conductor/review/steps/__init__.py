"""The built-in steps of a review, one module each; they come in by the same entry points as anybody's."""
