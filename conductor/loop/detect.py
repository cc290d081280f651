"""Both loops of a live pull request, and one cycle of the outer loop, through the ports of any forge.

Everything is read around one head: where the head moved meanwhile, it is read again. What the forge does not tell is
``Unavailable``, never nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from conductor.core.description import closed_by
from conductor.core.loops import follow_up_loop, outer, reviewer_loop, routing
from conductor.core.loops.facts import FollowUpFacts, ReviewerFacts, follow_up_snapshot, reviewer_snapshot, scope_of
from conductor.layout import Layout
from conductor.lock import holder
from conductor.ports import DraftReviews, Forge, LinksIssues, LoopFacts, Threads
from schemas.errors import BadInput, NeedsPerson, Unavailable
from schemas.forge import CheckState, PullRequest
from schemas.loops.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from schemas.loops.follow_up import write_follow_up
from schemas.loops.local_state import LocalState, read_local_state
from schemas.loops.reviewer import read_reviewer, write_reviewer
from schemas.loops.routing import read_routing, write_routing
from schemas.text import one_line
from worker.tools.files import MissingFile, NotRegular, make_folder, read_regular, replace_file

A = TypeVar("A")
_LARGEST = 1 << 20
_TRIES = 3


class LoopForge(Forge, LoopFacts, DraftReviews, Threads, Protocol):
    """A forge that knows all that the review loops ask."""


def loop_forge(forge: Forge) -> LoopForge:
    """The same forge. Raises ``Unavailable`` where it does not know what the loops ask."""
    for port, what in ((LoopFacts, "who is asked to review"), (DraftReviews, "pending reviews"), (Threads, "threads")):
        if not isinstance(forge, port):
            raise Unavailable(
                f"the forge {forge.name!r} does not tell {what}", "Give a snapshot instead: --input FILE."
            )
    return cast(LoopForge, forge)


class Wishes(NamedTuple):
    """What a caller knows better, or asks about."""

    login: str | None = None
    review_requested: bool | None = None
    local: LocalState | None = None
    request_status: str | None = None
    validated_head: str | None = None
    external: tuple[str, ...] = ()
    limits: Any = None


def steady(forge: LoopForge, number: int, read: Callable[[PullRequest | None], A]) -> A:
    """What ``read`` makes of the pull request (None: there is none), at a head that did not move meanwhile."""
    for _ in range(_TRIES):
        pulls = forge.pull_requests([number])
        pull = pulls[0] if pulls else None
        found = read(pull)
        if pull is None:
            return found
        after = forge.pull_requests([number])
        if after and after[0].head == pull.head:
            return found
    raise Unavailable(f"the head of #{number} moved each time that it was read", "Ask again once it rests.")


def reviewer(forge: LoopForge, layout: Layout, number: int, wishes: Wishes) -> dict[str, Any]:
    """The reviewer loop's answer. Without a local state of the caller's, the conductor's own is read."""

    def read(pull: PullRequest | None) -> ReviewerFacts:
        acting = forge.login()
        if pull is None:
            return ReviewerFacts(None, acting, login=wishes.login)
        requested = [one.login for one in forge.requested_reviewers(number)]
        # In the order in which a review comes about, so that one on its way is seen twice rather than not at all.
        local = wishes.local or own_state(layout, number, scope_of(requested, wishes.login))
        pending = forge.pending_review(number)
        submitted = forge.submitted_reviews(number)
        return ReviewerFacts(pull, acting, requested, submitted, pending, local, wishes.login, wishes.review_requested)

    answer = reviewer_loop.interpret(reviewer_snapshot(steady(forge, number, read)))
    return {
        "ok": True,
        "snapshot": write_reviewer(answer.snapshot),
        "state": str(answer.state),
        "allowedTransitions": [str(state) for state in answer.allowed_transitions],
        "nextAction": answer.next_action,
    }


def follow_up(forge: LoopForge, number: int, wishes: Wishes) -> dict[str, Any]:
    """The follow-up loop's answer."""

    def read(pull: PullRequest | None) -> FollowUpFacts:
        if pull is None:
            return FollowUpFacts(None)
        checks = forge.checks([number]).get(number)
        if checks is None:
            raise Unavailable(f"the forge does not tell the checks of #{number}", "Ask again later.")
        return FollowUpFacts(
            pull,
            wishes.external,
            [one.login for one in forge.requested_reviewers(number)],
            forge.submitted_reviews(number),
            forge.threads(number),
            checks,
            not checks.checks and previous_green(forge, pull, wishes),
            wishes.validated_head,
            wishes.request_status,
        )

    snapshot = follow_up_snapshot(steady(forge, number, read))
    return follow_up_loop.detect(write_follow_up(snapshot), wishes.limits)


def previous_green(forge: LoopForge, pull: PullRequest, wishes: Wishes) -> bool:
    """Whether the head before was green; only read where somebody validated this one, since nothing else asks."""
    if wishes.validated_head != pull.head:
        return False
    heads = [push.head for push in forge.pushes(pull.number) if push.head != pull.head]
    return bool(heads) and forge.checks_of(pull.number, heads[-1]).state is CheckState.PASSED


def own_state(layout: Layout, number: int, login: str | None) -> LocalState | None:
    """What the conductor wrote down of its review; None where it has none, or another reviewer is asked about."""
    try:
        raw = read_regular(layout.review_file(number), _LARGEST)
    except MissingFile:
        return None
    path = layout.review_file(number)
    try:
        state = read_local_state(_parsed(raw), number=number, now=datetime.now(UTC))
    except BadInput as fault:
        raise _of(path, fault) from None
    theirs = (state.reviewer_login or "").lower()
    return state if login is None or login == theirs else None


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as fault:
        raise BadInput(f"it is not JSON: {one_line(str(fault))}", "Move it away.") from None


def _of(path: Path, fault: BadInput) -> BadInput:
    """The fault of a file's content, with the file's name, once."""
    return BadInput(f"{path}: {fault.what}", fault.hint)


# --- the outer loop ---


class Cycle(NamedTuple):
    """One cycle of the outer loop: what was detected, what follows, and where that is written."""

    checkpoint: Checkpoint
    path: Path
    routing: dict[str, Any]
    follow_up: dict[str, Any]
    reviewer: dict[str, Any]

    @property
    def waits(self) -> bool:
        return self.checkpoint.outer_action == "continue_wait"

    def as_json(self) -> dict[str, Any]:
        """The checkpoint's fields, and what they come from."""
        return {
            "ok": True,
            **write_checkpoint(self.checkpoint),
            "path": str(self.path),
            "routingOutcome": self.routing["routingOutcome"],
            "handoffEnvelope": self.routing["handoffEnvelope"],
            "followUp": self.follow_up,
            "reviewer": self.reviewer,
        }


def checkpoint_of(layout: Layout, repo: str, number: int) -> Checkpoint | None:
    """The last cycle's checkpoint; None before the first.

    Raises ``BadInput`` where the file is not one, or is another pull request's.
    """
    path = layout.checkpoint(repo, number)
    try:
        raw = read_regular(path, _LARGEST)
    except MissingFile:
        return None
    try:
        return outer.check(read_checkpoint(_parsed(raw)), repo, number)
    except BadInput as fault:
        raise _of(path, fault) from None


def cycle(forge: LoopForge, layout: Layout, number: int, wishes: Wishes) -> Cycle:
    """Detect both loops, route, and write the checkpoint in one step.

    Raises ``NotSo``, and writes nothing, where there is no such pull request.
    """
    repo = forge.repository()
    previous = checkpoint_of(layout, repo, number)
    theirs = follow_up(forge, number, wishes)
    if not theirs["snapshot"]["prExists"]:
        forge.pull_request(number)  # raises, in the forge's own words
        raise Unavailable(f"#{number} came about while it was looked for", "Ask again.")
    ours = reviewer(forge, layout, number, wishes)
    facts = read_routing(
        {
            "target": {"repo": repo, "pr": number},
            "copilotState": theirs["state"],
            "reviewerState": ours["state"],
            "ownershipState": "live_owner" if conducted(layout, number) else None,
            "sourceMode": "authoritative",
        }
    )
    decided = routing.route(facts)
    snapshot = read_reviewer(ours["snapshot"])
    checkpoint = outer.next_checkpoint(previous, facts, decided, snapshot, datetime.now(UTC))
    path = layout.checkpoint(repo, number)
    make_folder(path.parent)
    replace_file(path, json.dumps(write_checkpoint(checkpoint), indent=2) + "\n")
    return Cycle(checkpoint, path, write_routing(decided), theirs, ours)


def conducted(layout: Layout, number: int) -> bool:
    """Whether a live conductor has this pull request in one of its panes."""
    if holder(layout.lock) is None:
        return False
    for path in sorted(layout.panes.glob("*.json")):
        try:
            pane = _parsed(read_regular(path, _LARGEST))
        except MissingFile:  # its pane was removed meanwhile
            continue
        except BadInput as fault:
            raise fault if isinstance(fault, NotRegular) else _of(path, fault) from None
        if isinstance(pane, dict) and pane.get("pr_number") == number and pane.get("status") != "done":
            return True
    return False


def linked(forge: LoopForge, issue: int) -> PullRequest | None:
    """The pull request that closes this issue: the open one, else the newest that was merged, else that was closed.

    Raises ``NeedsPerson`` where several are open. A forge that does not tell those that are over has none of them.
    """
    if isinstance(forge, LinksIssues):
        found = forge.pull_requests_closing(issue)
    else:
        found = [pull for pull in forge.pull_requests() if issue in closed_by(pull.body)]
    opened = [pull for pull in found if pull.state == "open"]
    if len(opened) > 1:
        names = ", ".join(f"#{pull.number}" for pull in opened)
        raise NeedsPerson(
            f"issue #{issue} has several open pull requests: {names}", "Close all but one, or name it: --pr N."
        )
    rank = ("closed", "merged", "open")
    return max(found, key=lambda pull: (rank.index(pull.state), pull.number), default=None)


def full_head(forge: LoopForge, pull: PullRequest, name: str) -> str:
    """The head that is meant by a name of at least 7 digits; a whole one is taken as it is.

    Raises ``BadInput`` where it names none of the heads that the pull request had, or more than one.
    """
    short = name.strip().lower()
    if not _SHA.fullmatch(short):
        raise BadInput(f"--head {one_line(name, 60)!r} is no commit", "Give 7 to 40 hexadecimal digits of it.")
    if len(short) in _WHOLE:
        return short
    heads = {pull.head, *(push.head for push in forge.pushes(pull.number))}
    meant = sorted(head for head in heads if head.startswith(short))
    if len(meant) != 1:
        which = "more than one head" if meant else "no head"
        raise BadInput(f"--head {short} is {which} that #{pull.number} had", "Give all of its digits.")
    return meant[0]


_SHA = re.compile(r"[0-9a-f]{7,40}|[0-9a-f]{64}")
_WHOLE = (40, 64)
