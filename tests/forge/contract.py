"""What every implementation of the ``Forge`` port must do. A test module subclasses this and gives
``make_stage``.
"""

from __future__ import annotations

import pytest

from conductor.ports import HeadMovedError, LinksIssues
from schemas.errors import BadInput, NotSo
from schemas.forge import Checks, CheckState
from schemas.review import Verdict
from tests.forge.stage import MakeStage, Stage
from tests.support.repos import git
from tests.support.waiting import wait_until

PASS_UNLESS_TOLD = ("sh", "-c", 'echo running; test "$(cat verdict.txt 2>/dev/null)" != bad')
MARKER = "<!-- taskmaestro review r-1 -->"


def settled(stage: Stage, number: int, timeout: float = 30.0) -> Checks:
    """Wait until the checks of the current head are not pending any more."""

    def ready() -> Checks | None:
        checks = stage.forge.checks([number])[number]
        return None if checks.state in (CheckState.PENDING, CheckState.NOT_YET) else checks

    found = wait_until(ready, timeout, "the checks to settle")
    assert found is not None
    return found


class ForgeContract:
    """One class for all forges. The stage's acting login is ``conductor`` unless a test asks for another."""

    # --- pull requests ---

    def test_a_pull_request_tells_what_it_was_opened_with(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        head = stage.push("feature/one")
        opened = stage.acting("worker-1").create_pull_request(
            branch="feature/one", base="main", title="Add one", body="Closes #7", draft=False
        )
        assert stage.forge.pull_request(opened.number) == opened
        assert (opened.title, opened.body, opened.issue) == ("Add one", "Closes #7", 7)
        assert (opened.author, opened.state, opened.draft) == ("worker-1", "open", False)
        assert (opened.head_branch, opened.head) == ("feature/one", head)
        assert (opened.base_branch, opened.base) == ("main", git(stage.root, "rev-parse", "main"))

    def test_an_open_pull_request_of_the_branch_is_answered_instead_of_a_second(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        first = stage.open("feature", draft=True)
        again = stage.forge.create_pull_request(branch="feature", base="main", title="Other", body="other", draft=False)
        assert (again.number, again.title, again.draft) == (first.number, first.title, True)

    def test_a_branch_finds_its_open_pull_request_and_none_when_it_was_closed(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature")
        found = stage.forge.pull_request_of_branch("feature")
        assert found is not None
        assert found.number == opened.number
        assert stage.forge.pull_request_of_branch("other") is None
        assert stage.forge.close_pull_request(opened.number).state == "closed"
        assert stage.forge.pull_request_of_branch("feature") is None
        assert stage.forge.pull_request(opened.number).state == "closed"

    def test_closing_twice_is_the_same_as_once(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        number = stage.open("feature").number
        stage.forge.close_pull_request(number)
        assert stage.forge.close_pull_request(number).state == "closed"

    def test_a_closed_one_is_opened_again_at_the_head_of_its_branch(self, make_stage: MakeStage) -> None:
        stage = make_stage(checks={"unit": PASS_UNLESS_TOLD})
        number = stage.open("feature").number
        stage.forge.close_pull_request(number)
        head = stage.push("feature", "more.txt")
        opened = stage.forge.reopen_pull_request(number)
        assert (opened.number, opened.state, opened.head) == (number, "open", head)
        assert [one.number for one in stage.forge.pull_requests()] == [number]
        assert stage.forge.reopen_pull_request(number).state == "open"
        done = settled(stage, number)
        assert (done.head, done.state) == (head, CheckState.PASSED)

    def test_a_closed_one_stays_closed_while_its_branch_has_another_or_is_gone(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        number = stage.open("feature").number
        stage.forge.close_pull_request(number)
        second = stage.open("feature").number
        with pytest.raises(NotSo, match=f"#{second}"):
            stage.forge.reopen_pull_request(number)
        stage.forge.close_pull_request(second)
        stage.send(":feature")
        with pytest.raises(NotSo, match="no branch feature"):
            stage.forge.reopen_pull_request(number)
        assert stage.forge.pull_request(number).state == "closed"

    def test_many_are_read_at_once_and_unknown_numbers_left_out(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        numbers = [stage.open(f"feature-{n}").number for n in (1, 2, 3)]
        stage.forge.close_pull_request(numbers[1])
        assert [one.number for one in stage.forge.pull_requests()] == [numbers[0], numbers[2]]
        chosen = stage.forge.pull_requests([numbers[2], 9999, numbers[1]])
        assert {one.number: one.state for one in chosen} == {numbers[1]: "closed", numbers[2]: "open"}
        assert stage.forge.pull_requests([]) == []

    def test_the_head_is_the_pushed_one_at_once(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature")
        second = stage.push("feature", "more.txt")
        assert stage.forge.pull_request(opened.number).head == second
        amended = stage.amend("feature", "more.txt", "other\n")
        assert stage.forge.pull_requests([opened.number])[0].head == amended
        assert stage.forge.checks([opened.number])[opened.number].head == amended

    def test_the_diff_is_what_the_branch_brings_and_not_what_the_base_gained(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        stage.push("feature", "new file.txt", "bonjour é\n")
        number = stage.open("feature").number
        stage.push("main", "elsewhere.txt")
        diff = stage.forge.diff(number)
        assert "b/new file.txt" in diff
        assert "+bonjour é" in diff
        assert "elsewhere.txt" not in diff

    def test_a_draft_is_made_ready(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", draft=True)
        assert opened.draft
        assert not stage.forge.mark_ready(opened.number).draft
        assert not stage.forge.pull_request(opened.number).draft

    def test_a_branch_that_was_not_pushed_cannot_be_asked_for(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        with pytest.raises(NotSo, match="unpushed"):
            stage.forge.create_pull_request(branch="unpushed", base="main", title="T", body="", draft=False)

    def test_a_branch_without_commits_of_its_own_cannot_be_asked_for(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        git(stage.root, "branch", "empty")
        stage.send("empty")
        with pytest.raises(NotSo, match="empty"):
            stage.forge.create_pull_request(branch="empty", base="main", title="T", body="", draft=False)

    def test_a_missing_pull_request_is_not_so_for_every_verb(self, make_stage: MakeStage) -> None:
        forge = make_stage().forge
        for ask in (
            lambda: forge.pull_request(77),
            lambda: forge.diff(77),
            lambda: forge.comments(77),
            lambda: forge.comment(77, "text"),
            lambda: forge.mark_ready(77),
            lambda: forge.close_pull_request(77),
            lambda: forge.reopen_pull_request(77),
            lambda: forge.post_review(77, body="b", verdict=Verdict.CHANGES, head="a" * 40, marker=""),
        ):
            with pytest.raises(NotSo, match="77"):
                ask()
        assert forge.checks([77]) == {}

    # --- issues ---

    @pytest.mark.parametrize(
        "text", ["Authorization: check the role", "see https://me@example.com/x", "set ghx_function_name"]
    )
    def test_words_that_only_look_like_secrets_are_kept(self, make_stage: MakeStage, text: str) -> None:
        stage = make_stage()
        issue = stage.forge.create_issue(text, text)
        assert (issue.title, stage.forge.issue(issue.number).body) == (text, text)
        number = stage.open("feature", body=text).number
        stage.forge.comment(number, text)
        assert stage.forge.pull_request(number).body == text
        assert [one.body for one in stage.forge.comments(number)] == [text]

    def test_a_closed_issue_is_listed_no_more_and_can_still_be_read(self, make_stage: MakeStage) -> None:
        forge = make_stage().forge
        first, second = forge.create_issue("One", ""), forge.create_issue("Two", "")
        for _ in range(2):
            assert forge.close_issue(first.number).state == "closed"
        assert [issue.number for issue in forge.issues()] == [second.number]
        assert forge.issue(first.number).state == "closed"
        with pytest.raises(NotSo, match="77"):
            forge.close_issue(77)

    def test_an_issue_tells_its_pull_requests_also_when_they_are_over(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        assert isinstance(stage.forge, LinksIssues)
        issue = stage.forge.create_issue("One", "").number
        closed = stage.open("first", body=f"Closes #{issue}").number
        stage.forge.close_pull_request(closed)
        opened = stage.open("second", body=f"fixes #{issue}").number
        stage.open("third", body="something else")
        found = stage.forge.pull_requests_closing(issue)
        assert [(pull.number, pull.state) for pull in found] == [(closed, "closed"), (opened, "open")]
        assert stage.forge.pull_requests_closing(4711) == []

    # --- checks ---

    def test_without_checks_the_state_is_none(self, make_stage: MakeStage) -> None:
        stage = make_stage(checks={})
        number = stage.open("feature").number
        assert stage.forge.checks([number])[number].state is CheckState.NONE

    def test_checks_pend_just_after_the_push_and_then_pass(self, make_stage: MakeStage) -> None:
        stage = make_stage(checks={"unit": PASS_UNLESS_TOLD})
        opened = stage.open("feature")
        first = stage.forge.checks([opened.number])[opened.number]
        assert first.state in (CheckState.PENDING, CheckState.NOT_YET, CheckState.PASSED)
        done = settled(stage, opened.number)
        assert (done.head, done.state) == (opened.head, CheckState.PASSED)
        assert [check.name for check in done.checks] == ["unit"]

    def test_a_failed_check_names_its_log_and_shows_its_end(self, make_stage: MakeStage) -> None:
        stage = make_stage(checks={"good": ("true",), "unit": ("sh", "-c", "echo the reason; exit 3")})
        number = stage.open("feature").number
        wait_until(
            lambda: all(c.state is not CheckState.PENDING for c in stage.forge.checks([number])[number].checks),
            30,
            "all checks",
        )
        done = stage.forge.checks([number])[number]
        assert done.state is CheckState.FAILED
        assert [check.name for check in done.failing] == ["unit"]
        assert done.failing[0].log_url
        assert "the reason" in done.failing[0].tail

    def test_a_new_head_has_checks_of_its_own(self, make_stage: MakeStage) -> None:
        stage = make_stage(checks={"unit": PASS_UNLESS_TOLD})
        number = stage.open("feature").number
        bad = stage.push("feature", "verdict.txt", "bad")
        failed = settled(stage, number)
        assert (failed.head, failed.state) == (bad, CheckState.FAILED)
        good = stage.amend("feature", "verdict.txt", "good")
        passed = settled(stage, number)
        assert (passed.head, passed.state) == (good, CheckState.PASSED)

    def test_a_round_of_questions_is_the_same_as_each_by_itself(self, make_stage: MakeStage) -> None:
        stage = make_stage(checks={"unit": PASS_UNLESS_TOLD})
        first, second = stage.open("one").number, stage.open("two").number
        settled(stage, first)
        answer = stage.forge.poll([first, second, 9999], [first, 9999])
        assert dict(answer.requests) == {pull.number: pull for pull in stage.forge.pull_requests([first, second])}
        assert dict(answer.checks) == stage.forge.checks([first])
        alone = stage.forge.poll([second], [])
        assert (set(alone.requests), dict(alone.checks)) == ({second}, {})

    # --- comments and reviews ---

    def test_comments_and_reviews_are_listed_oldest_first(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", author="worker-1")
        stage.acting("worker-1").comment(opened.number, "first")
        stage.forge.post_review(opened.number, body="second", verdict=Verdict.CHANGES, head=opened.head, marker=MARKER)
        stage.forge.comment(opened.number, "third")
        first, second, third = stage.forge.comments(opened.number)
        assert (first.kind, first.author, first.body, first.review_state) == (
            "comment",
            "worker-1",
            "first",
            None,
        )
        assert (second.kind, second.review_state, second.commit) == (
            "review",
            "changes_requested",
            opened.head,
        )
        assert second.body.startswith("second")
        assert MARKER in second.body
        assert (third.author, third.body) == (stage.forge.login(), "third")

    def test_a_marker_is_posted_once_as_comment_and_as_review(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", author="worker-1")
        comment = stage.forge.comment(opened.number, "note", marker="<!-- c -->")
        assert not comment.already
        again = stage.forge.comment(opened.number, "other words", marker="<!-- c -->")
        assert (again.id, again.already) == (comment.id, True)
        posted = [
            stage.forge.post_review(opened.number, body="b", verdict=Verdict.CHANGES, head=opened.head, marker=MARKER)
            for _ in range(2)
        ]
        assert [one.already for one in posted] == [False, True]
        assert len({one.id for one in posted}) == 1
        assert len(stage.forge.comments(opened.number)) == 2

    def test_comments_without_a_marker_are_all_posted(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        number = stage.open("feature").number
        for _ in range(2):
            assert not stage.forge.comment(number, "same").already
        assert len(stage.forge.comments(number)) == 2

    def test_another_ones_pull_request_is_approved(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", author="worker-1")
        posted = stage.forge.post_review(
            opened.number, body="LGTM", verdict=Verdict.APPROVE, head=opened.head, marker=MARKER
        )
        assert not posted.as_comment
        (review,) = stage.forge.comments(opened.number)
        assert (review.review_state, review.commit) == ("approved", opened.head)

    def test_an_approval_of_ones_own_becomes_a_comment_that_says_so(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", author=stage.forge.login())
        posted = stage.forge.post_review(
            opened.number, body="All fine.", verdict=Verdict.APPROVE, head=opened.head, marker=MARKER
        )
        assert posted.as_comment
        (review,) = stage.forge.comments(opened.number)
        assert review.review_state in (None, "commented")
        assert review.body.startswith("✅ Review complete - nothing to address")
        assert "All fine." in review.body

    def test_an_approval_of_ones_own_after_a_review_says_that_its_comments_are_addressed(
        self, make_stage: MakeStage
    ) -> None:
        stage = make_stage()
        opened = stage.open("feature", author=stage.forge.login())
        for verdict in (Verdict.CHANGES, Verdict.APPROVE):
            stage.forge.post_review(opened.number, body=f"{verdict}", verdict=verdict, head=opened.head, marker="")
        assert stage.forge.comments(opened.number)[-1].body.startswith("✅ Review complete - all comments addressed")

    def test_changes_asked_of_ones_own_become_a_comment_with_the_body_alone(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", author=stage.forge.login())
        posted = stage.forge.post_review(
            opened.number, body="Mend it.", verdict=Verdict.CHANGES, head=opened.head, marker=MARKER
        )
        assert posted.as_comment
        (review,) = stage.forge.comments(opened.number)
        assert review.body.startswith("Mend it.")
        assert review.review_state in (None, "commented")

    def test_an_approval_is_refused_when_the_head_moved(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", author="worker-1")
        moved = stage.push("feature", "late.txt")
        with pytest.raises(HeadMovedError) as caught:
            stage.forge.post_review(
                opened.number, body="LGTM", verdict=Verdict.APPROVE, head=opened.head, marker=MARKER
            )
        assert caught.value.head == moved
        assert stage.forge.comments(opened.number) == []

    def test_an_approval_that_was_posted_is_answered_although_the_head_moved(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", author="worker-1")
        stage.forge.post_review(opened.number, body="LGTM", verdict=Verdict.APPROVE, head=opened.head, marker=MARKER)
        stage.push("feature", "late.txt")
        again = stage.forge.post_review(
            opened.number, body="LGTM", verdict=Verdict.APPROVE, head=opened.head, marker=MARKER
        )
        assert again.already

    def test_a_closed_pull_request_is_not_approved(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        opened = stage.open("feature", author="worker-1")
        stage.forge.close_pull_request(opened.number)
        with pytest.raises(NotSo, match="closed"):
            stage.forge.post_review(
                opened.number, body="LGTM", verdict=Verdict.APPROVE, head=opened.head, marker=MARKER
            )

    def test_an_empty_comment_and_an_endless_one_are_bad_input(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        number = stage.open("feature").number
        with pytest.raises(BadInput, match="empty"):
            stage.forge.comment(number, " \n")
        with pytest.raises(BadInput, match="70000"):
            stage.forge.comment(number, "x" * 70_000)

    # --- issues ---

    def test_issues_are_made_read_and_listed(self, make_stage: MakeStage) -> None:
        forge = make_stage().forge
        issue = forge.create_issue("Do it", "- [ ] done\n")
        assert (issue.title, issue.body, issue.state) == ("Do it", "- [ ] done\n", "open")
        assert forge.issue(issue.number) == issue
        assert forge.issues() == [issue]
        with pytest.raises(NotSo, match="4711"):
            forge.issue(4711)

    def test_the_acting_login_may_be_named_as_the_author(self, make_stage: MakeStage) -> None:
        stage = make_stage()
        number = stage.open("feature").number
        stage.forge.comment(number, "mine", author=stage.forge.login())
        assert [one.author for one in stage.forge.comments(number)] == [stage.forge.login()]

    def test_someone_acts(self, make_stage: MakeStage) -> None:
        assert make_stage(login="conductor").forge.login() == "conductor"
