"""What may be done with reviews and review threads, with GitHub's own refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tests.github import bare
from tests.github.model import PullRequest, Review, ReviewComment, ReviewState, Thread, User, World, now
from tests.github.rules import Refused, checked_body, writable

EVENTS: dict[str, ReviewState] = {
    "APPROVE": "APPROVED",
    "COMMENT": "COMMENTED",
    "REQUEST_CHANGES": "CHANGES_REQUESTED",
}


@dataclass(frozen=True)
class DraftComment:
    """A comment to be made on the diff."""

    path: str
    line: int
    body: str
    side: Literal["RIGHT", "LEFT"] = "RIGHT"
    start_line: int | None = None


def add_review(
    world: World,
    pull: PullRequest,
    viewer: User,
    *,
    event: str | None,
    body: str = "",
    commit: str | None = None,
    comments: Sequence[DraftComment] = (),
) -> Review:
    """Without ``event`` it stays pending."""
    writable(pull.repository)
    if event not in (None, "PENDING"):
        check_event(pull, viewer, event or "", body, has_comments=bool(comments))
    if any(one.author is viewer and one.state == "PENDING" for one in pull.reviews):
        raise Refused("User can only have one pending review per pull request")
    if body:
        checked_body(body)
    oid = pull.head
    if commit is not None:
        found = bare.resolve(pull.repository.path, commit)
        if (
            found is None
            or len(commit) != 40
            or found not in bare.commits_between(pull.repository.path, pull.base_oid, found)
        ):
            raise Refused(f"The commit_id is not part of the pull request: {commit}", field="commit_id")
        oid = found
    values = {"author": viewer, "body": body, "commit": oid, "created_at": now()}
    review: Review = world.make(Review, "PRR", pull=pull, state="PENDING", **values)
    hunks = [hunk_of(pull, oid, one) for one in comments]
    for one, hunk in zip(comments, hunks, strict=True):
        begin_thread(world, review, one, hunk)
    pull.reviews.append(review)
    if event not in (None, "PENDING"):
        finish_review(review, event or "")
    return review


def check_event(pull: PullRequest, viewer: User, event: str, body: str, *, has_comments: bool) -> None:
    if event not in EVENTS:
        raise Refused(f"event {event} is not known", field="event")
    if viewer is pull.author and event != "COMMENT":
        verb = "approve" if event == "APPROVE" else "request changes on"
        raise Refused(f"Can not {verb} your own pull request")
    if event != "APPROVE" and not body.strip() and not has_comments:
        raise Refused("Body can't be blank")


def submit_review(review: Review, viewer: User, event: str, body: str | None) -> None:
    writable(review.pull.repository)
    if review.state != "PENDING" or review.author is not viewer:
        raise Refused("Can not submit a review that is not pending")
    text = review.body if body is None else body
    check_event(review.pull, viewer, event, text, has_comments=bool(review.comments))
    review.body = text
    finish_review(review, event)


def finish_review(review: Review, event: str) -> None:
    review.state, review.submitted_at = EVENTS[event], now()
    pull = review.pull
    pull.requests = [one for one in pull.requests if one.user is not review.author]
    pull.updated_at = review.submitted_at


def dismiss_review(review: Review, message: str) -> None:
    writable(review.pull.repository)
    checked_body(message, "Message")
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise Refused("Can not dismiss a review that is not an approval or a request for changes")
    review.state, review.pull.updated_at = "DISMISSED", now()


def delete_review(world: World, review: Review, viewer: User) -> None:
    writable(review.pull.repository)
    if review.state != "PENDING" or review.author is not viewer:
        raise Refused("Can not delete a non-pending pull request review")
    pull = review.pull
    gone = review.comments
    pull.reviews.remove(review)
    for thread in list(pull.threads):
        thread.comments = [one for one in thread.comments if one not in gone]
        if not thread.comments:
            pull.threads.remove(thread)
            world.nodes.pop(thread.node_id, None)
    for thing in (review, *gone):
        world.nodes.pop(thing.node_id, None)


def hunk_of(pull: PullRequest, oid: str, comment: DraftComment) -> str:
    """The hunk that the comment is on; GitHub takes comments on lines of the diff only."""
    checked_body(comment.body)
    files = bare.changes(pull.repository.path, pull.base_oid, oid)
    change = next((one for one in files if one.path == comment.path), None)
    if change is None:
        raise Refused("Path could not be resolved", field="pull_request_review_thread.path")
    lines = change.right if comment.side == "RIGHT" else change.left
    for name, line in (("line", comment.line), ("start_line", comment.start_line)):
        if line is not None and line not in lines:
            field = f"pull_request_review_thread.{name}"
            raise Refused(f"Pull request review thread {name.replace('_', ' ')} must be part of the diff", field=field)
    return bare.hunk_until(change.patch, comment.line, comment.side)


def begin_thread(world: World, review: Review, comment: DraftComment, hunk: str) -> Thread:
    values = {"line": comment.line, "start_line": comment.start_line, "side": comment.side, "hunk": hunk}
    thread: Thread = world.make(Thread, "PRRT", pull=review.pull, path=comment.path, commit=review.commit, **values)
    review.pull.threads.append(thread)
    add_review_comment(world, thread, review, comment.body)
    return thread


def add_thread(world: World, pull: PullRequest, review: Review | None, viewer: User, comment: DraftComment) -> Thread:
    """On the pending review; without one, in a review of its own that is pending too, as GitHub does it."""
    writable(pull.repository)
    if review is not None and (review.state != "PENDING" or review.author is not viewer):
        raise Refused("Can not add a thread to a review that is not pending")
    pending = (one for one in pull.reviews if one.author is viewer and one.state == "PENDING")
    holder = review or next(pending, None)
    hunk = hunk_of(pull, holder.commit if holder else pull.head, comment)
    return begin_thread(world, holder or add_review(world, pull, viewer, event=None), comment, hunk)


def add_review_comment(world: World, thread: Thread, review: Review, body: str) -> ReviewComment:
    first = thread.comments[0] if thread.comments else None
    values = {"author": review.author, "body": checked_body(body), "created_at": now(), "reply_to": first}
    made: ReviewComment = world.make(ReviewComment, "PRRC", thread=thread, review=review, **values)
    thread.comments.append(made)
    return made


def reply(world: World, thread: Thread, viewer: User, body: str, review: Review | None = None) -> ReviewComment:
    """A reply outside a pending review is a review of its own that is submitted at once."""
    writable(thread.pull.repository)
    checked_body(body)
    pending = (one for one in thread.pull.reviews if one.author is viewer and one.state == "PENDING")
    holder = review or next(pending, None)
    if holder is not None:
        return add_review_comment(world, thread, holder, body)
    single = add_review(world, thread.pull, viewer, event=None)
    made = add_review_comment(world, thread, single, body)
    finish_review(single, "COMMENT")
    return made


def set_resolved(thread: Thread, viewer: User, *, resolved: bool) -> None:
    writable(thread.pull.repository)
    thread.resolved_by = viewer if resolved else None


# --- what follows from the facts ---


def review_decision(pull: PullRequest) -> str | None:
    """None where no review is required, as on GitHub."""
    repository = pull.repository
    if not repository.protection.reviews or pull.base_branch != repository.default_branch:
        return None
    latest: dict[str, str] = {}
    for review in pull.reviews:
        if review.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED") and review.author is not pull.author:
            latest[review.author.login] = review.state
    if "CHANGES_REQUESTED" in latest.values():
        return "CHANGES_REQUESTED"
    return "APPROVED" if "APPROVED" in latest.values() else "REVIEW_REQUIRED"
