"""The steps of a review, its scanners and reviewers. Adapters of the Reviewer port."""
