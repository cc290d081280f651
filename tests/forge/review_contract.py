"""What every forge that knows the review loops must do: ``LoopFacts``, ``DraftReviews`` and ``Threads``."""

from __future__ import annotations

from typing import Protocol, cast

import pytest

from conductor.ports import DraftReviews, Forge, HeadMovedError, LoopFacts, Threads
from schemas.errors import BadInput, NotSo
from schemas.forge import CheckState, DraftComment, PendingReview
from schemas.review import Verdict
from tests.forge.contract import PASS_UNLESS_TOLD, settled
from tests.forge.stage import MakeStage, Stage

MARKER = "<!-- taskmaestro: draft one -->"


class Full(Forge, LoopFacts, DraftReviews, Threads, Protocol):
    """A forge that has all four ports."""


def full(stage: Stage, login: str | None = None) -> Full:
    """The stage's forge, under this login."""
    forge = stage.forge if login is None else stage.acting(login)
    assert isinstance(forge, LoopFacts)
    assert isinstance(forge, DraftReviews)
    assert isinstance(forge, Threads)
    return cast(Full, forge)


def staged(forge: Full, number: int, marker: str = MARKER, *comments: DraftComment) -> PendingReview:
    commit = forge.pull_request(number).head
    return forge.stage_review(number, commit=commit, body="Mend it.", marker=marker, comments=comments)


class ReviewContract:
    """The acting login is ``conductor``, the author of the pull requests is ``worker-1``."""

    # --- requested reviewers ---

    def test_a_review_is_asked_for_once_and_withdrawn_once(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="worker-1").number
        assert forge.requested_reviewers(number) == []
        assert forge.request_review(number, "Conductor")
        assert not forge.request_review(number, "conductor")
        assert forge.request_review(number, "another")
        assert [one.login for one in forge.requested_reviewers(number)] == ["another", "conductor"]
        assert forge.withdraw_request(number, "another")
        assert not forge.withdraw_request(number, "another")
        assert [one.login for one in forge.requested_reviewers(number)] == ["conductor"]

    def test_the_author_is_not_asked_and_nobody_on_a_closed_one(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="worker-1").number
        with pytest.raises(NotSo, match="author"):
            forge.request_review(number, "worker-1")
        with pytest.raises(BadInput, match="login"):
            forge.request_review(number, " ")
        forge.close_pull_request(number)
        with pytest.raises(NotSo, match="closed"):
            forge.request_review(number, "conductor")

    @pytest.mark.parametrize("way", ["posted", "submitted"])
    def test_whoever_has_reviewed_is_not_asked_any_longer(self, make_stage: MakeStage, way: str) -> None:
        stage = make_stage()
        forge, opened = full(stage), stage.open("feature", author="worker-1")
        forge.request_review(opened.number, "conductor")
        if way == "posted":
            forge.post_review(opened.number, body="b", verdict=Verdict.CHANGES, head=opened.head, marker=MARKER)
        else:
            pending = staged(forge, opened.number)
            assert [one.login for one in forge.requested_reviewers(opened.number)] == ["conductor"]
            forge.submit_review(opened.number, pending.id, verdict=Verdict.CHANGES)
        assert forge.requested_reviewers(opened.number) == []

    # --- pending reviews ---

    def test_a_pending_review_is_seen_by_its_author_alone_until_it_is_submitted(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, opened = full(stage), stage.open("feature", author="worker-1")
        number = opened.number
        assert forge.pending_review(number) is None
        pending = staged(forge, number, MARKER, DraftComment(path="feature.txt", line=1, body="Why?"))
        assert (pending.commit, pending.author, pending.marker) == (opened.head, "conductor", MARKER)
        assert (pending.comments, pending.already, pending.submitted) == (1, False, False)
        found = forge.pending_review(number)
        assert found is not None
        assert (found.id, found.body) == (pending.id, pending.body)
        assert pending.body.startswith("Mend it.")
        assert (forge.comments(number), forge.submitted_reviews(number), forge.threads(number)) == ([], [], [])
        posted = forge.submit_review(number, pending.id, verdict=Verdict.CHANGES)
        assert not posted.as_comment
        assert forge.pending_review(number) is None
        (review,) = forge.submitted_reviews(number)
        assert (review.author, review.state, review.commit) == ("conductor", "changes_requested", opened.head)
        (thread,) = forge.threads(number)
        assert (thread.path, thread.line, thread.commit, thread.resolved) == ("feature.txt", 1, opened.head, False)
        assert [(one.author, one.body) for one in thread.comments] == [("conductor", "Why?")]
        assert [one.kind for one in forge.comments(number)] == ["review"]

    def test_a_marker_is_staged_once_and_told_after_it_was_submitted(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="worker-1").number
        first = staged(forge, number)
        again = staged(forge, number)
        assert (again.id, again.already, again.submitted) == (first.id, True, False)
        forge.submit_review(number, first.id, verdict=Verdict.APPROVE)
        after = staged(forge, number)
        assert (after.id, after.already, after.submitted) == (first.id, True, True)
        assert forge.submit_review(number, first.id, verdict=Verdict.APPROVE).already
        assert len(forge.submitted_reviews(number)) == 1

    def test_a_login_has_one_pending_review_of_a_pull_request(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="worker-1").number
        first = staged(forge, number)
        with pytest.raises(NotSo, match="pending"):
            staged(forge, number, "<!-- taskmaestro: draft two -->")
        assert forge.discard_review(number, first.id)
        assert not forge.discard_review(number, first.id)
        assert forge.pending_review(number) is None
        assert not staged(forge, number, "<!-- taskmaestro: draft two -->").already

    def test_two_logins_stage_the_same_review_and_each_has_its_own(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        number = stage.open("feature", author="worker-1").number
        mine, theirs = full(stage), full(stage, "mona")
        ids = {}
        for forge, login in ((mine, "conductor"), (theirs, "mona")):
            made = staged(forge, number)
            assert (made.author, made.already) == (login, False)
            assert staged(forge, number).id == made.id
            ids[login] = made.id
        assert len(set(ids.values())) == 2
        mine.submit_review(number, ids["conductor"], verdict=Verdict.CHANGES)
        kept = staged(theirs, number)
        assert (kept.id, kept.already, kept.submitted) == (ids["mona"], True, False)
        assert theirs.discard_review(number, ids["mona"])
        assert not staged(theirs, number).submitted, "the other's submitted one is none of theirs"
        assert [one.author for one in mine.submitted_reviews(number)] == ["conductor"]

    def test_a_review_of_another_login_is_neither_discarded_nor_submitted(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        number = stage.open("feature", author="worker-1").number
        mine, theirs = full(stage), full(stage, "mona")
        made = staged(mine, number)
        assert not theirs.discard_review(number, made.id)
        with pytest.raises(NotSo):
            theirs.submit_review(number, made.id, verdict=None)
        assert theirs.pending_review(number) is None
        assert mine.pending_review(number) is not None

    def test_a_stale_review_is_not_submitted_unless_that_is_allowed_and_never_as_an_approval(
        self, make_stage: MakeStage
    ) -> None:
        stage = make_stage()
        forge, opened = full(stage), stage.open("feature", author="worker-1")
        pending = staged(forge, opened.number)
        moved = stage.push("feature", "late.txt")
        for verdict, allowed in (
            (Verdict.APPROVE, False),
            (Verdict.APPROVE, True),
            (Verdict.CHANGES, False),
            (None, False),
        ):
            with pytest.raises(HeadMovedError) as caught:
                forge.submit_review(opened.number, pending.id, verdict=verdict, stale=allowed)
            assert caught.value.head == moved
        assert forge.submitted_reviews(opened.number) == []
        forge.submit_review(opened.number, pending.id, verdict=Verdict.CHANGES, stale=True)
        assert [one.commit for one in forge.submitted_reviews(opened.number)] == [opened.head]

    def test_a_comment_off_the_diff_is_refused_and_nothing_is_staged(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="worker-1").number
        for path, line in (("feature.txt", 40), ("elsewhere.txt", 1)):
            with pytest.raises(BadInput, match="diff"):
                staged(forge, number, MARKER, DraftComment(path=path, line=line, body="b"))
        assert forge.pending_review(number) is None

    def test_on_ones_own_pull_request_a_verdict_becomes_a_comment(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="conductor").number
        assert forge.submit_review(number, staged(forge, number).id, verdict=Verdict.APPROVE).as_comment
        (review,) = forge.submitted_reviews(number)
        assert review.state == "commented"
        assert review.body.startswith("✅ Review complete - nothing to address")

    def test_without_a_verdict_it_is_a_comment(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="worker-1").number
        forge.submit_review(number, staged(forge, number).id, verdict=None)
        assert [one.state for one in forge.submitted_reviews(number)] == ["commented"]

    def test_a_review_that_is_not_there_is_not_submitted(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="worker-1").number
        with pytest.raises(NotSo, match="4711"):
            forge.submit_review(number, "4711", verdict=None)

    # --- threads ---

    def test_a_thread_is_answered_and_resolved_once(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        forge, number = full(stage), stage.open("feature", author="worker-1").number
        pending = staged(forge, number, MARKER, DraftComment(path="feature.txt", line=1, body="Why?"))
        forge.submit_review(number, pending.id, verdict=Verdict.CHANGES)
        (thread,) = forge.threads(number)
        author = stage.acting("worker-1")
        assert isinstance(author, Threads)
        author.reply(number, thread.id, "Because.")
        (thread,) = forge.threads(number)
        assert [(one.author, one.body) for one in thread.comments][-1] == ("worker-1", "Because.")
        assert forge.resolve(number, thread.id)
        assert not forge.resolve(number, thread.id)
        assert [one.resolved for one in forge.threads(number)] == [True]
        with pytest.raises(NotSo, match="4711"):
            forge.reply(number, "4711", "text")

    # --- heads ---

    def test_heads_are_told_oldest_first_with_the_checks_that_they_had(self, make_stage: MakeStage) -> None:
        stage = make_stage(checks={"unit": PASS_UNLESS_TOLD})
        forge, opened = full(stage), stage.open("feature", author="worker-1")
        settled(stage, opened.number)
        second = stage.push("feature", "more.txt")
        pushes = forge.pushes(opened.number)
        assert [one.head for one in pushes] == [opened.head, second]
        assert pushes[0].at <= pushes[1].at
        assert forge.checks_of(opened.number, opened.head).state is CheckState.PASSED
        assert forge.checks_of(opened.number, second).head == second
        with pytest.raises(NotSo, match="never"):
            forge.checks_of(opened.number, "f" * 40)

    def test_a_missing_pull_request_is_never_nothing(self, make_stage: MakeStage) -> None:
        forge = full(make_stage())
        for ask in (
            lambda: forge.requested_reviewers(77),
            lambda: forge.request_review(77, "somebody"),
            lambda: forge.submitted_reviews(77),
            lambda: forge.pushes(77),
            lambda: forge.checks_of(77, "f" * 40),
            lambda: forge.pending_review(77),
            lambda: forge.threads(77),
        ):
            with pytest.raises(NotSo, match="77"):
                ask()

    def test_the_repository_has_an_owner_and_a_name(self, make_stage: MakeStage) -> None:
        owner, _, name = full(make_stage()).repository().partition("/")
        assert owner
        assert name
