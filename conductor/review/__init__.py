"""Reviews: the steps (``steps/``, one module each), what runs them, and reviewers that are programs."""
