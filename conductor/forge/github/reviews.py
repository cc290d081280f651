"""The review loops' side: whose review is asked for, submitted and pending reviews, threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, get_args

from conductor.core.diff import shown_lines
from conductor.forge.github import queries
from conductor.forge.github.api import Json, next_page, nodes_of
from conductor.forge.github.base import Node
from conductor.forge.github.faults import Missing, Refused
from conductor.forge.github.marks import bare, last_marker, marked, stands_in
from conductor.forge.github.posts import EVENTS, PostsOnGithub, may_approve, review_fault, review_id, submitted_as
from conductor.forge.github.pulls import author_of, plain
from conductor.forge.github.redact import redacted
from conductor.forge.texts import checked_body, review_text
from conductor.ports import HeadMovedError
from schemas.errors import BadInput, NotSo
from schemas.forge import (
    DraftComment,
    PendingReview,
    Posted,
    PullRequest,
    RequestedReviewer,
    SubmittedReview,
    Thread,
    ThreadComment,
)
from schemas.review import Verdict
from schemas.text import one_line

_State = Literal["approved", "commented", "changes_requested", "dismissed"]
_THREAD_KEYS = ("id", "path", "line", "isResolved", "comments")
_STATES: tuple[str, ...] = get_args(_State)


class ReviewsOnGithub(PostsOnGithub, ABC):
    """The ports ``DraftReviews`` and ``Threads``, and of ``LoopFacts`` what is about reviews."""

    @abstractmethod
    def diff_of(self, pull: PullRequest, commit: str) -> str:
        """What the pull request changes at this commit."""

    # --- requested reviewers ---

    def requested_reviewers(self, number: int) -> list[RequestedReviewer]:
        found = self._list(queries.REQUESTED, number, "reviewRequests", "the requested reviewers")
        with self._api.shaped(f"the requested reviewers of #{number}"):
            logins = [(one["requestedReviewer"] or {}).get("login") for one in found]
        # A team has no login; who of it reviews is not known before somebody does.
        return [RequestedReviewer(login=login) for login in sorted(filter(None, logins), key=str.lower)]

    def request_review(self, number: int, login: str) -> bool:
        wanted = _named(login)
        node = self._node(number)
        if node["state"] != "OPEN":
            raise NotSo(f"pull request #{number} is {node['state'].lower()}, so nobody can be asked to review it", "")
        if author_of(node).lower() == plain(wanted):
            raise NotSo(f"{wanted} is the author of #{number}", "Ask somebody else for the review.")
        return self._turn(number, wanted, asked=True)

    def withdraw_request(self, number: int, login: str) -> bool:
        return self._turn(number, _named(login), asked=False)

    def _turn(self, number: int, login: str, *, asked: bool) -> bool:
        """Bring it about that this review is, or is not, asked for; False where it was so. Safe to repeat."""
        if self._is_asked(number, login) is asked:
            return False

        def change() -> bool:
            self._api.send(
                "POST" if asked else "DELETE",
                f"pulls/{number}/requested_reviewers",
                {"reviewers": [login]},
                what=f"the request for {login}'s review of #{number}",
            )
            return True

        def look() -> bool | None:
            return True if self._is_asked(number, login) is asked else None

        try:
            return self._api.once(change, look)
        except Refused as fault:
            raise NotSo(
                f"{login} cannot be asked to review #{number}: {fault.said or fault.what}",
                "Only somebody with access to the repository can be asked.",
            ) from fault

    def _is_asked(self, number: int, login: str) -> bool:
        return any(plain(one.login.lower()) == plain(login) for one in self.requested_reviewers(number))

    # --- reviews ---

    def submitted_reviews(self, number: int) -> list[SubmittedReview]:
        found = self._reviews(number)
        with self._api.shaped(f"the reviews of #{number}"):
            return [_submitted(node) for node in found if node["state"] != "PENDING"]

    def pending_review(self, number: int) -> PendingReview | None:
        found = _pending_of(self._mine(number))
        with self._api.shaped(f"the pending review of #{number}"):
            return None if found is None else _pending(found, already=True)

    def stage_review(
        self, number: int, *, commit: str, body: str, marker: str, comments: Sequence[DraftComment] = ()
    ) -> PendingReview:
        if not marker:
            raise BadInput("a review is staged under a marker", "Give one, so that it is staged once.")
        text = marked(body, marker)
        node, reviews = self._pull_and_reviews(number)
        known = self._staged(number, node, reviews, marker)
        if known is not None:
            return known
        if comments:
            self._check_places(self._to_pulls([node])[0], commit, comments)
        given = {
            "pullRequestId": node["id"],
            "commitOID": commit,
            "body": text.body,
            "threads": [
                {"path": one.path, "line": one.line, "side": "RIGHT", "body": marked_remark(one.body)}
                for one in comments
            ],
        }

        def change() -> PendingReview:
            return self._api.change(
                queries.ADD_REVIEW,
                {"input": given},
                lambda data: _pending(data["addPullRequestReview"]["pullRequestReview"]),
                what=f"the pending review of #{number}",
            )

        def look() -> PendingReview | None:
            found = self._staged(number, *self._pull_and_reviews(number), marker)
            return None if found is None else found.model_copy(update={"already": False})

        try:
            staged = self._api.once(change, look)
        except Refused as fault:
            raise review_fault(fault, number) from fault
        return staged.model_copy(update={"comments": max(staged.comments, len(comments))})

    def _staged(self, number: int, pull: Node, reviews: Sequence[Node], marker: str) -> PendingReview | None:
        """The acting login's review with this marker. Raises ``NotSo`` where another one of it is pending."""
        mine = self._mine_of(reviews)
        found = [node for node in mine if stands_in(node["body"], marker)]
        if found:
            own = self._is_me(author_of(pull))
            return _pending(found[-1], already=True, own=own)
        other = _pending_of(mine)
        if other is None:
            return None
        raise NotSo(
            f"another review of #{number} is pending ({review_id(other)}, for {(_commit(other) or '')[:12]})",
            f"Submit it, or discard it: taskmaestro pr discard {number}",
        )

    def _check_places(self, pull: PullRequest, commit: str, comments: Sequence[DraftComment]) -> None:
        shown = shown_lines(self.diff_of(pull, commit))
        for comment in comments:
            if comment.line not in shown.get(comment.path, frozenset()):
                raise BadInput(
                    f"{one_line(comment.path)}:{comment.line} is not in the diff of {commit[:12]}",
                    "Comments stand on lines that the diff shows; say it in the body instead.",
                )

    def discard_review(self, number: int, review: str) -> bool:
        def pending() -> Node | None:
            found = self._review(number, review)
            return found if found is not None and found["state"] == "PENDING" else None

        node = pending()
        if node is None:
            return False
        try:
            self._drop_review(node["id"])
        except Missing:  # somebody else was quicker, or an attempt whose answer was lost
            return pending() is None
        return True

    def submit_review(self, number: int, review: str, *, verdict: Verdict | None, stale: bool = False) -> Posted:
        found, reviews = self._pull_and_reviews(number)
        node = self._review_of(reviews, review)
        if node is None:
            raise NotSo(f"#{number} has no review {one_line(review)} of yours", "Stage it first.")
        own = self._is_me(author_of(found))
        if node["state"] != "PENDING":  # done is done, whatever became of the branch
            return Posted(id=review, url=node["url"] or "", already=True, as_comment=own and verdict is not None)
        # The remote is asked after GitHub: its head is the one that counts.
        pull = self._to_pulls([found], must=True)[0]
        self._may_submit(pull, _commit(node) or "", verdict, stale=stale)
        earlier = any(one["state"] != "PENDING" for one in reviews)
        body, state, as_comment = node["body"] or "", "commented", False
        if verdict is not None:
            body, state, as_comment = review_text(own=own, verdict=verdict, body=body, earlier=earlier)
        given = {"pullRequestReviewId": node["id"], "event": EVENTS[state], "body": body}

        def look() -> Posted | None:
            now = self._review(number, review)
            if now is None or now["state"] == "PENDING":
                return None
            return submitted_as(now, as_comment=as_comment)

        return self._api.once(lambda: self._submit(given, number, as_comment=as_comment), look)

    def _review(self, number: int, review: str) -> Node | None:
        """The acting login's review of this id."""
        return self._review_of(self._reviews(number), review)

    def _review_of(self, reviews: Sequence[Node], review: str) -> Node | None:
        return next((one for one in self._mine_of(reviews) if review_id(one) == review), None)

    def _submit(self, given: Json, number: int, *, as_comment: bool) -> Posted:
        return self._api.change(
            queries.SUBMIT_REVIEW,
            {"input": given},
            lambda data: submitted_as(data["submitPullRequestReview"]["pullRequestReview"], as_comment=as_comment),
            what=f"the review of #{number}",
        )

    def _may_submit(self, pull: PullRequest, commit: str, verdict: Verdict | None, *, stale: bool) -> None:
        if verdict is Verdict.APPROVE:
            may_approve(pull, commit)
        elif pull.head != commit and not stale:
            raise HeadMovedError(pull.head)

    # --- threads ---

    def threads(self, number: int) -> list[Thread]:
        nodes = self._list(queries.THREADS, number, "reviewThreads", "the threads", _THREAD_KEYS)
        with self._api.shaped(f"the threads of #{number}"):
            found = [self._thread(node) for node in nodes]
        return [thread for thread in found if thread is not None]

    def _thread(self, node: Node) -> Thread | None:
        """As a value; None where nothing of it was submitted yet."""
        what = f"the thread on {one_line(node['path'], 120)}"
        said: list[Any] = list(nodes_of(node["comments"], what))
        after = next_page(node["comments"], None, what)
        if after is not None:
            more = self._api.pages(
                queries.THREAD_COMMENTS,
                {"thread": node["id"]},
                lambda data: data["node"]["comments"],
                what=what,
                after=after,
                own=False,
            )
            said += more or []
        told = [one for one in said if one["state"] != "PENDING"]
        if not told:
            return None
        first = told[0]
        began = first["originalCommit"] or first["commit"] or {}
        return Thread(
            id=node["id"],
            path=node["path"],
            line=node["line"],
            commit=began.get("oid") or "",
            review=None if first["pullRequestReview"] is None else review_id(first["pullRequestReview"]),
            resolved=node["isResolved"],
            comments=tuple(
                ThreadComment(author=author_of(one), body=bare(one["body"]), at=one["createdAt"]) for one in told
            ),
            url=first["url"] or "",
        )

    def reply(self, number: int, thread: str, body: str, *, author: str | None = None) -> Posted:
        self._acts_as(author)
        text = marked(body, "")
        self._thread_node(number, thread)
        if _pending_of(self._mine(number)) is not None:
            raise NotSo(
                f"a review of #{number} is pending, and GitHub would put the reply into it",
                f"Submit it, or discard it: taskmaestro pr discard {number}",
            )

        def change() -> Posted:
            return self._api.change(
                queries.ADD_REPLY,
                {"input": {"pullRequestReviewThreadId": thread, "body": text.body}},
                lambda data: _reply(data["addPullRequestReviewThreadReply"]["comment"]),
                what=f"the reply on #{number}",
            )

        def look() -> Posted | None:
            said = self._comments_of(thread)
            found = next((one for one in said if stands_in(one["body"], text.marker)), None)
            return None if found is None else _reply(found)

        return self._api.once(change, look)

    def resolve(self, number: int, thread: str) -> bool:
        if self._thread_node(number, thread)["isResolved"]:
            return False

        def change() -> bool:
            return self._api.change(
                queries.RESOLVE,
                {"input": {"threadId": thread}},
                lambda data: bool(data["resolveReviewThread"]["thread"]["isResolved"]),
                what=f"the thread of #{number}",
            )

        # Resolving is the same twice as once, so there is nothing to look for.
        return self._api.once(change, lambda: None)

    def _thread_node(self, number: int, thread: str) -> Node:
        for node in self._list(queries.THREADS, number, "reviewThreads", "the threads", _THREAD_KEYS):
            if node["id"] == thread:
                found: Node = node
                return found
        raise NotSo(f"#{number} has no thread {one_line(thread)}", f"See `taskmaestro pr threads {number}`.")

    def _comments_of(self, thread: str) -> list[Any]:
        return (
            self._api.pages(
                queries.THREAD_COMMENTS,
                {"thread": thread},
                lambda data: data["node"]["comments"],
                what="the thread",
                own=False,
            )
            or []
        )


def marked_remark(body: str) -> str:
    """The text of a remark on a line; the review's own marker finds it again."""
    return redacted(checked_body(body))


def _named(login: str) -> str:
    found = one_line(login, 100).lower()
    if not found:
        raise BadInput("the reviewer has no login", "Name somebody with --reviewer.")
    return found


def _commit(node: Node) -> str | None:
    return (node["commit"] or {}).get("oid")


def _pending_of(mine: Sequence[Node]) -> Node | None:
    return next((node for node in mine if node["state"] == "PENDING"), None)


def _pending(node: Node, *, already: bool = False, own: bool = False) -> PendingReview:
    submitted = node["state"] != "PENDING"
    return PendingReview(
        id=review_id(node),
        author=author_of(node),
        commit=_commit(node) or "",
        body=bare(node["body"]),
        marker=last_marker(node["body"] or ""),
        comments=node["comments"]["totalCount"],
        url=node["url"] or "",
        already=already,
        submitted=submitted,
        as_comment=own and submitted,
    )


def _submitted(node: Node) -> SubmittedReview:
    state = node["state"].lower()
    if state not in _STATES:
        raise ValueError(f"a review is {state}")
    return SubmittedReview(
        id=review_id(node),
        author=author_of(node),
        state=state,
        commit=_commit(node),
        body=bare(node["body"]),
        at=node["submittedAt"] or node["createdAt"],
        url=node["url"] or "",
    )


def _reply(node: Node) -> Posted:
    return Posted(id=node["id"], url=node["url"] or "")
