"""What would move a pane: the rows of the table that its state lets happen, and the decisions that would be taken.

Both are asked of the rules themselves, so they cannot say anything else than what would happen.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from conductor.core.cycle import TABLE, decide
from conductor.core.state import Pane
from schemas.config import CyclePolicy
from schemas.effects import Report
from schemas.events import UserDecided

VerbName = Literal["approve", "another-cycle", "retry", "abandon"]
REFUSALS = frozenset(
    {"nothing to decide", "approval refused", "no other cycle", "no retry at the cap", "task not given"}
)
"""Rules by which a person's word is not done, with the reason in the report."""


class Move(NamedTuple):
    """One row that could take the next event: what has to happen, and where it leads."""

    kind: str
    rule: str
    to: tuple[str, ...]
    doc: str


class Choice(NamedTuple):
    """A decision as it would be taken now. ``needs``: an option that it needs. ``why_not``: empty where it is taken."""

    verb: str
    rule: str
    doc: str
    needs: str
    why_not: str


def moves(pane: Pane) -> list[Move]:
    """The rows that can move the pane from where it is, in the table's order."""
    return [
        Move(row.kind, row.rule, tuple(sorted(row.to)), row.doc)
        for row in TABLE
        if row.to is not None and pane.status in row.sources and _can_happen(pane, row.kind)
    ]


def _can_happen(pane: Pane, kind: str) -> bool:
    """Whether the pane has what an event of this kind is about. Decisions are told apart, by ``choices``."""
    facts = {
        "pr_inspected": pane.claim is not None,
        "ci_read": pane.gate is not None,
        "ci_budget_spent": pane.gate is not None,
        "review_finished": pane.review is not None,
        "review_failed": pane.review is not None,
        "head_moved": pane.pr_number is not None,
        "pr_merged": pane.pr_number is not None and pane.ended is None,
        "pr_closed": pane.pr_number is not None and pane.ended is None,
        "user_decided": False,
    }
    return facts.get(kind, True)


def choices(pane: Pane, policy: CyclePolicy) -> list[Choice]:
    """Each decision with what the rules would make of it now; none where nothing waits for a person."""
    if pane.attention is None:
        return []
    return [_choice(pane, policy, verb) for verb in get_args(VerbName)]


def _choice(pane: Pane, policy: CyclePolicy, verb: VerbName) -> Choice:
    plain = _tried(pane, policy, verb, None)
    if plain.why_not and verb == "approve":
        with_issue = _tried(pane, policy, verb, 1)
        return with_issue._replace(needs="--follow-up ISSUE") if not with_issue.why_not else plain
    return plain


def _tried(pane: Pane, policy: CyclePolicy, verb: VerbName, issue: int | None) -> Choice:
    event = UserDecided(
        pane=pane.index, at=pane.updated_at, verb=verb, why="-", who="-", request="-", follow_up_issue=issue
    )
    decision = decide(pane, event, policy)
    said = next((effect.message for effect in decision.effects if isinstance(effect, Report)), decision.rule)
    doc = next((row.doc for row in TABLE if row.rule == decision.rule), "")
    return Choice(verb, decision.rule, doc, "", said if decision.rule in REFUSALS else "")
