"""Comments and reviews: what was said, and saying something once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from conductor.forge.github import queries
from conductor.forge.github.api import missing_pull, pull_part
from conductor.forge.github.base import GithubBase, Node, checked_number
from conductor.forge.github.faults import Refused
from conductor.forge.github.marks import Marked, bare, marked, stands_in
from conductor.forge.github.pulls import author_of
from conductor.forge.texts import review_text
from conductor.ports import HeadMovedError
from schemas.errors import NotSo
from schemas.forge import Comment, Posted, PullRequest
from schemas.review import Verdict

ReviewState = Literal["approved", "commented", "changes_requested"]
_STATES: dict[str, ReviewState] = {
    "APPROVED": "approved",
    "COMMENTED": "commented",
    "CHANGES_REQUESTED": "changes_requested",
    # A dismissed one counts as a word, not as a verdict any more.
    "DISMISSED": "commented",
}
EVENTS = {"approved": "APPROVE", "commented": "COMMENT", "changes_requested": "REQUEST_CHANGES"}


class PostsOnGithub(GithubBase):
    """Comments and submitted reviews."""

    def comments(self, number: int) -> list[Comment]:
        talk = self._talk(number)
        with self._api.shaped(f"the comments of #{number}"):
            return [_to_comment(node) for node in talk if node.get("state") != "PENDING"]

    def comment(self, number: int, body: str, *, marker: str = "", author: str | None = None) -> Posted:
        self._acts_as(author)
        text = marked(body, marker)
        pull = self._node(number)
        found = self._find(self._talk(number), marker, pull) if marker else None
        return found or self._api.once(
            lambda: self._api.change(
                queries.ADD_COMMENT,
                {"input": {"subjectId": pull["id"], "body": text.body}},
                lambda data: _commented(data["addComment"]["commentEdge"]["node"]),
                what=f"the comment on #{number}",
            ),
            lambda: self._posted_already(number, text, pull),
        )

    def post_review(self, number: int, *, body: str, verdict: Verdict, head: str, marker: str) -> Posted:
        talk = self._talk(number)
        node = self._node(number)
        found = self._find(talk, marker, node) if marker else None
        if found is not None:
            return found
        if verdict is Verdict.APPROVE:
            may_approve(self._settled(number), head)
        earlier = any(one["__typename"] == "PullRequestReview" and one["state"] != "PENDING" for one in talk)
        made = review_text(own=self._is_me(author_of(node)), verdict=verdict, body=body, earlier=earlier)
        text = marked(made.body, marker)
        for one in self._mine(number):
            # A pending review with the same marker gives way to it.
            if one["state"] == "PENDING" and stands_in(one["body"], text.marker):
                self._drop_review(one["id"])
        given = {
            "pullRequestId": node["id"],
            "commitOID": head,
            "body": text.body,
            "event": EVENTS[made.state],
        }
        return self._api.once(
            lambda: self._add_review(number, given, as_comment=made.as_comment),
            lambda: self._posted_already(number, text, node),
        )

    # --- inside ---

    def _talk(self, number: int) -> list[Node]:
        """All comments and reviews in GitHub's order; a pending review may be among them."""
        return self._list(queries.TALK, number, "timelineItems", "the comments", ("id", "body", "url", "__typename"))

    def _reviews(self, number: int) -> list[Node]:
        """All reviews, oldest first, the acting login's pending one too; GitHub shows nobody else's."""
        return self._pull_and_reviews(number)[1]

    def _pull_and_reviews(self, number: int) -> tuple[Node, list[Node]]:
        """The pull request and all its reviews, by one question for each page of them."""
        pulls: list[Node] = []
        keys = ("id", "body", "url", "state", "commit")
        reviews = self._list(queries.REVIEWS, number, "reviews", "the reviews", keys, on_pull=pulls.append)
        return checked_number(pulls[-1], number), reviews

    def _mine(self, number: int) -> list[Node]:
        return self._mine_of(self._reviews(number))

    def _mine_of(self, reviews: Sequence[Node]) -> list[Node]:
        return [node for node in reviews if self._is_me(author_of(node))]

    def _list(
        self,
        document: str,
        number: int,
        field: str,
        what: str,
        keys: Sequence[str] = (),
        *,
        on_pull: Callable[[Node], object] = lambda _pull: None,
    ) -> list[Any]:
        """All pages of a list of the pull request, whose entries have these keys. ``NotSo`` without a pull request.

        ``on_pull`` is called with the pull request of each page, for a document that asks for more of it.
        """
        what, part = f"{what} of #{number}", pull_part(field)

        def read(data: Node) -> Node | None:
            page = part(data)
            if page is not None:
                on_pull(data["repository"]["pullRequest"])
            return page

        found = self._api.pages(document, {"number": number}, read, what=what, absent=True)
        if found is None:
            raise missing_pull(number)
        with self._api.shaped(what):
            for node in found:
                for key in keys:
                    node[key]  # a missing one is the fault that is looked for
        return found

    def _find(self, talk: Sequence[Node], marker: str, pull: Node) -> Posted | None:
        """The acting login's post with this marker."""
        for one in talk:
            if one.get("state") != "PENDING" and self._is_me(author_of(one)) and stands_in(one["body"], marker):
                review = one["__typename"] == "PullRequestReview"
                own = self._is_me(author_of(pull)) and review
                return Posted(
                    id=review_id(one) if review else one["id"], url=one["url"] or "", already=True, as_comment=own
                )
        return None

    def _posted_already(self, number: int, text: Marked, pull: Node) -> Posted | None:
        """What came of an attempt whose answer was lost: it is new, so not ``already``."""
        found = self._find(self._talk(number), text.marker, pull)
        return None if found is None else found.model_copy(update={"already": False})

    def _add_review(self, number: int, given: Mapping[str, Any], *, as_comment: bool) -> Posted:
        try:
            return self._api.change(
                queries.ADD_REVIEW,
                {"input": dict(given)},
                lambda data: submitted_as(data["addPullRequestReview"]["pullRequestReview"], as_comment=as_comment),
                what=f"the review of #{number}",
            )
        except Refused as fault:
            raise review_fault(fault, number) from fault

    def _drop_review(self, review: str) -> None:
        self._api.once(
            lambda: self._api.change(
                queries.DELETE_REVIEW,
                {"input": {"pullRequestReviewId": review}},
                lambda data: str(data["deletePullRequestReview"]["pullRequestReview"]["id"]),
                what="the pending review",
            ),
            lambda: None,
        )


def review_id(node: Node) -> str:
    """A review's number, by which it is known outside: snapshots and local states hold a number."""
    return str(int(node["fullDatabaseId"]))


def may_approve(pull: PullRequest, head: str) -> None:
    """Raises ``NotSo`` for one that is not open, ``HeadMovedError`` where its head is another one."""
    if pull.state != "open":
        raise NotSo(f"pull request #{pull.number} is {pull.state}, so it cannot be approved", "Comment on it instead.")
    if pull.head != head:
        raise HeadMovedError(pull.head)


def review_fault(fault: Refused, number: int) -> NotSo:
    """A refused review in words of ours, where it is known what was wrong."""
    if "pending review" in fault.said.lower():
        return NotSo(
            f"another review of #{number} is pending: {fault.said}",
            f"Submit it, or discard it: taskmaestro pr discard {number}",
        )
    return fault


def submitted_as(node: Node, *, as_comment: bool) -> Posted:
    if node["state"] == "PENDING":
        raise ValueError("the review is pending still")
    return Posted(id=review_id(node), url=node["url"] or "", as_comment=as_comment)


def _commented(node: Node) -> Posted:
    return Posted(id=node["id"], url=node["url"] or "")


def _to_comment(node: Node) -> Comment:
    if node["__typename"] == "IssueComment":
        return Comment(
            id=node["id"], author=author_of(node), body=bare(node["body"]), at=node["createdAt"], kind="comment"
        )
    commit = node["commit"]
    return Comment(
        id=review_id(node),
        author=author_of(node),
        body=bare(node["body"]),
        at=node["submittedAt"] or node["createdAt"],
        kind="review",
        review_state=_STATES[node["state"]],
        commit=None if commit is None else commit["oid"],
    )
