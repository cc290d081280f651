"""The steps of a review, one module each, and what runs them."""
