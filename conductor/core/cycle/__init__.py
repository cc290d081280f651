"""The review cycle: one table of rows, one function that looks a row up (docs/review-cycle.md is generated from it)."""

from conductor.core.cycle.table import TABLE, Decision, apply, decide, settle_done, wanted

__all__ = ["TABLE", "Decision", "apply", "decide", "settle_done", "wanted"]
