"""Carries effects out: the only place of the conductor that touches forge, git, panes and workers' files.

Each effect can be begun again after a crash. What cannot be looked up afterwards is written so that doing it twice is
the same as doing it once; a delivery, where twice would be wrong, is first looked for in the pane.
"""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from conductor.core.messages_review import parse_markers
from conductor.layout import Layout
from conductor.loop.delivery import Deliverer
from conductor.loop.outcome import Done, Failed, Outcome, Retry
from conductor.loop.watch_results import RESULT, stamp_of
from conductor.ports import Cancelled, DraftReviews, Forge, HeadMovedError, Notifier, Reviewer, ReviewRequest, Worktrees
from schemas.effects import (
    CheckHistory,
    Effect,
    InspectPr,
    KeepBackup,
    PostReview,
    QuarantineResult,
    Report,
    RunReview,
    SendTask,
    StartAgent,
    TakeBackTask,
    WriteResult,
)
from schemas.errors import BadInput, Fault, NoLeave, NotSo, Unavailable
from schemas.events import (
    CiLost,
    EffectFailed,
    Event,
    ForgeFailed,
    HeadMoved,
    History,
    HistoryChecked,
    LostCommits,
    PrFacts,
    PrInspected,
    ReviewFailed,
    ReviewFinished,
    ReviewPosted,
    ReviewStage,
    ReviewStageName,
)
from schemas.forge import CheckState, PendingReview, Posted
from schemas.result import MAX_BYTES, parse_result
from schemas.review import Review, Verdict
from schemas.text import one_line
from worker.tools.files import read_regular, replace_file

LAG_BUDGET = 300.0
_BACKOFF = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
_NOISY_AFTER = 2
_GIVE_UP_AFTER = 5
_ASK_FORGE = (CheckHistory, InspectPr, RunReview, PostReview)

Inspect = Callable[[InspectPr], PrFacts]


@dataclass
class Tries:
    """How often an effect was tried, and since when, in this process."""

    count: int = 0
    since: float = 0.0


class Performer:
    """Performs effects for the engine; safe to call from several threads, once at a time for each effect."""

    def __init__(
        self,
        layout: Layout,
        *,
        forge: Forge,
        worktrees: Worktrees,
        deliverer: Deliverer,
        reviewer: Reviewer,
        inspect: Inspect,
        history: Callable[[int, str, str, str], History],
        allow_no_checks: bool = False,
        lagging: Callable[[InspectPr, PrFacts], bool],
        notifiers: Sequence[Notifier] = (),
        say: Callable[[str], None] = lambda _text: None,
        progress: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        self.layout = layout
        self.forge = forge
        self.worktrees = worktrees
        self.deliverer = deliverer
        self.reviewer = reviewer
        self.inspect = inspect
        self.history = history
        self.allow_no_checks = allow_no_checks
        self.lagging = lagging
        self.notifiers = notifiers
        self.say = say
        self.progress = progress
        self._tries: dict[str, Tries] = {}
        self._made: dict[str, Review] = {}
        """Reviews that are finished but not recorded yet, since the head could not be read after them."""

    def perform(self, effect: Effect, *, again: bool, cancelled: Callable[[], bool]) -> Outcome:
        """Try the effect once. Faults of the forge and of this machine become retries that a person hears of."""
        key = effect.model_dump_json()
        tries = self._tries.setdefault(key, Tries(since=time.monotonic()))
        tries.count += 1
        try:
            outcome = self._one(effect, again, cancelled, tries)
        except OSError as fault:
            reason = f"{fault.strerror or fault} ({fault.filename})" if fault.filename else str(fault)
            outcome = self._broken(effect, tries, reason)
        except Fault as fault:
            if self._comes_back(effect, fault, tries):
                outcome = self._later(effect, tries, str(fault))
            else:
                outcome = self._broken(effect, tries, str(fault))
        if not isinstance(outcome, Retry):
            self._tries.pop(key, None)
        return outcome

    def _one(self, effect: Effect, again: bool, cancelled: Callable[[], bool], tries: Tries) -> Outcome:
        match effect:
            case InspectPr():
                return self._inspect(effect, tries)
            case RunReview():
                return self._review(effect, cancelled)
            case PostReview():
                return self._post(effect, again)
            case WriteResult():
                return self._write_result(effect)
            case SendTask():
                return self.deliverer.send(effect, again=again)
            case StartAgent():
                return self.deliverer.start_idle(effect)
            case TakeBackTask():
                return self.deliverer.take_back(effect)
            case Report():
                return self._report(effect)
            case CheckHistory():
                return self._check_history(effect)
            case KeepBackup():
                return Done(detail=self.worktrees.keep(effect.head, effect.name))
            case QuarantineResult():
                return self._quarantine(effect)

    def _comes_back(self, effect: Effect, fault: Fault, tries: Tries) -> bool:
        """Whether to wait for the forge. A review waits for as long as it takes: nobody else would begin it again."""
        if isinstance(effect, RunReview):
            return isinstance(fault, Unavailable | NoLeave)
        return isinstance(fault, Unavailable) and isinstance(effect, _ASK_FORGE) and tries.count < _GIVE_UP_AFTER

    def _later(self, effect: Effect, tries: Tries, reason: str) -> Retry:
        told = ForgeFailed(pane=effect.pane, at=_now(), reason=one_line(reason, 500))
        return Retry(
            _BACKOFF[min(tries.count, len(_BACKOFF)) - 1], reason, told if tries.count > _NOISY_AFTER else None
        )

    def _broken(self, effect: Effect, tries: Tries, reason: str) -> Outcome:
        if isinstance(effect, InspectPr | PostReview) and tries.count >= _GIVE_UP_AFTER:
            return self._later(effect, tries, reason)
        if isinstance(effect, RunReview):
            return Done(ReviewFailed(pane=effect.pane, at=_now(), review_id=effect.review_id, reason=reason))
        told = EffectFailed(pane=effect.pane, at=_now(), effect=effect.kind, reason=one_line(reason, 500))
        return Retry(_BACKOFF[min(tries.count + 2, len(_BACKOFF)) - 1], reason, told)

    def _inspect(self, effect: InspectPr, tries: Tries) -> Outcome:
        facts = self.inspect(effect)
        over = time.monotonic() - tries.since > LAG_BUDGET
        if self.lagging(effect, facts) and not over:
            return Retry(_BACKOFF[min(tries.count, 4) - 1], "the forge does not show the pushed head yet")
        return Done(PrInspected(pane=effect.pane, at=_now(), claim_id=effect.claim_id, facts=facts, lag_over=over))

    def _review(self, effect: RunReview, cancelled: Callable[[], bool]) -> Outcome:
        request = ReviewRequest(
            review_id=effect.review_id,
            pane=effect.pane,
            cycle=effect.cycle,
            pr_number=effect.pr_number,
            head=effect.head,
            base=effect.base,
            issue=effect.issue,
            earlier=effect.earlier,
            told=lambda stage: self._reached(effect, stage),
        )
        review = self._made.get(effect.review_id)
        if review is None:
            self._reached(effect, "planning", login=self.forge.login())
            try:
                review = self.reviewer.review(request, cancelled)
            except Cancelled:
                # Not wanted any more: the engine drops it. Or the conductor ends: the next one has it made.
                return Retry(0.0, "cancelled while it ran")
            self._made[effect.review_id] = review
        head_now = self._head_of(effect.pr_number)
        del self._made[effect.review_id]
        return Done(ReviewFinished(pane=effect.pane, at=_now(), review=review, head_now=head_now))

    def _head_of(self, number: int) -> str:
        """The head by the remote's word, which wins over a forge that lags."""
        pulls = self.forge.pull_requests([number])
        if not pulls:
            raise Unavailable(f"the forge does not know #{number} any more", "It is asked again.")
        return self.worktrees.remote_head(pulls[0].head_branch) or pulls[0].head

    def _check_history(self, effect: CheckHistory) -> Outcome:
        found = ((old, self.history(effect.pane, old, effect.head, effect.base)) for old in effect.old_heads)
        lost = tuple(LostCommits(old=old, lines=one.foreign_lost) for old, one in found if one.foreign_lost)
        return Done(HistoryChecked(pane=effect.pane, at=_now(), head=effect.head, lost=lost))

    def _still_green(self, effect: PostReview) -> CheckState | None:
        """The state of CI where it is not green any more, None where it is."""
        checks = self.forge.checks([effect.pr_number]).get(effect.pr_number)
        if checks is None or checks.head != effect.head or checks.state is CheckState.PASSED:
            return None
        return None if checks.state is CheckState.NONE and self.allow_no_checks else checks.state

    def _reached(self, effect: RunReview | PostReview, stage: ReviewStageName, **more: str | None) -> None:
        """The review is this far; journalled beside the effect, which goes on meanwhile."""
        told = {"pane": effect.pane, "at": _now(), "review_id": effect.review_id, "stage": stage, **more}
        self.progress(ReviewStage.model_validate(told))

    def _stands(self, effect: PostReview) -> bool:
        """An earlier attempt, of which nothing was heard, did post the review."""
        me = self.forge.login().lower()
        mine = [one for one in self.forge.comments(effect.pr_number) if one.author.lower() == me]
        return any(one.kind == "review" and effect.marker in one.body.splitlines() for one in mine)

    def _post(self, effect: PostReview, again: bool) -> Outcome:
        if effect.verdict is Verdict.APPROVE:
            state = self._still_green(effect)
            if state is not None:
                if again and self._stands(effect):
                    stood = ReviewPosted(pane=effect.pane, at=_now(), review_id=effect.review_id, already=True)
                    return Done(stood, f"posted before CI was {state}")
                lost = CiLost(pane=effect.pane, at=_now(), head=effect.head, state=state)
                return Done(lost, f"not posted: CI is {state}")
        try:
            drafts = isinstance(self.forge, DraftReviews)
            posted = self._staged_and_submitted(effect) if drafts else self._posted(effect)
        except HeadMovedError as moved:
            return Done(HeadMoved(pane=effect.pane, at=_now(), head=moved.head), "not posted: the head moved")
        event = ReviewPosted(
            pane=effect.pane,
            at=_now(),
            review_id=effect.review_id,
            url=posted.url,
            already=posted.already,
            as_comment=posted.as_comment,
        )
        return Done(event, posted.url)

    def _posted(self, effect: PostReview) -> Posted:
        """In one step, where the forge knows no pending reviews."""
        return self.forge.post_review(
            effect.pr_number, body=effect.body, verdict=effect.verdict, head=effect.head, marker=effect.marker
        )

    def _staged_and_submitted(self, effect: PostReview) -> Posted:
        """Staged under its marker, then submitted; each step finds what it did before a crash.

        A draft of ours for something else is stale by now and discarded; another one of this login is left alone.
        """
        forge, number = self.forge, effect.pr_number
        assert isinstance(forge, DraftReviews)  # noqa: S101  # the caller looked
        staged = self._staged(forge, effect)
        if staged.submitted:
            return Posted(id=staged.id, url=staged.url, already=True, as_comment=staged.as_comment)
        self._reached(effect, "staged", draft_id=staged.id, draft_url=staged.url)
        try:
            return forge.submit_review(number, staged.id, verdict=effect.verdict, stale=True)
        except HeadMovedError:
            forge.discard_review(number, staged.id)
            raise

    def _staged(self, forge: DraftReviews, effect: PostReview) -> PendingReview:
        """What is pending already is only asked where it is in the way."""

        def stage() -> PendingReview:
            return forge.stage_review(effect.pr_number, commit=effect.head, body=effect.body, marker=effect.marker)

        try:
            return stage()
        except NotSo:
            there = forge.pending_review(effect.pr_number)
            if there is None or there.marker == effect.marker or not parse_markers(there.marker):
                raise
            forge.discard_review(effect.pr_number, there.id)
            return stage()

    def _write_result(self, effect: WriteResult) -> Outcome:
        folder = self.layout.worktree(effect.pane)
        if not folder.is_dir():
            return Failed(f"{folder} is gone")
        path = folder / RESULT
        kept: Mapping[str, object] = {}
        try:
            kept = parse_result(read_regular(path, MAX_BYTES)).model_extra or {}
        except (FileNotFoundError, BadInput):
            kept = {}
        word = {
            **kept,
            "status": effect.status,
            "pr_number": effect.pr_number,
            "review_cycle": effect.review_cycle,
            "head": effect.head,
            "written_by": "conductor",
            "granted": effect.status,
        }
        replace_file(path, json.dumps(word, indent=2) + "\n")
        return Done(detail=f"{path}: {effect.status}")

    def _report(self, effect: Report) -> Outcome:
        self.say(effect.message)
        failed = []
        for notifier in self.notifiers:
            try:
                notifier.notify(effect)
            except Exception as fault:  # a notifier is somebody else's code; the report stands without it
                failed.append(f"{notifier.name}: {type(fault).__name__}: {one_line(str(fault))}")
        return Done(detail="; ".join(failed) or effect.message)

    def _quarantine(self, effect: QuarantineResult) -> Outcome:
        path = self.layout.worktree(effect.pane) / RESULT
        try:
            stamp = stamp_of(path, read_regular(path, MAX_BYTES + 1))
        except (FileNotFoundError, BadInput):
            return Done(detail="the file is not there any more")
        if stamp != effect.stamp:
            return Done(detail="the file was written again meanwhile")
        self.layout.quarantine.mkdir(parents=True, exist_ok=True)
        kept = self.layout.quarantine / f"wt-{effect.pane}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{RESULT}"
        _move(path, kept)
        return Done(detail=f"{effect.why}; kept as {kept}")


def _move(path: Path, kept: Path) -> None:
    try:
        path.rename(kept)
    except OSError as fault:
        if fault.errno != errno.EXDEV:  # another file system: copy, then remove
            raise
        replace_file(kept, path.read_bytes())
        path.unlink()


def _now() -> datetime:
    return datetime.now(UTC)
