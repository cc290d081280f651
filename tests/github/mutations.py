"""GraphQL mutations: each takes the fields of its input that it models; another one that is given is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.github import review_rules, rules
from tests.github.fields import node_of
from tests.github.graphql import MUTATIONS, Context, Unmodelled, accepts
from tests.github.model import Comment, Issue, PullRequest, Repository, Review, Thread, User
from tests.github.review_rules import DraftComment
from tests.github.rules import Refused

Ids = Sequence[str]
#: Schema defaults that come along unasked and mean that nothing is wanted.
IDLE: dict[str, Any] = {"maintainerCanModify": True, "subjectType": "LINE", "startSide": "RIGHT"}


def mutation(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Register it under its name in camel case."""
    first, *rest = function.__name__.split("_")
    name = first + "".join(word.capitalize() for word in rest)

    def run(_: Any, context: Context, input: dict[str, Any]) -> dict[str, Any]:
        given = dict(input)
        client = given.pop("clientMutationId", None)
        for key, idle in IDLE.items():
            if given.get(key) == idle and not accepts(function, context, **given):
                del given[key]
        # Lists that are empty and values that are null ask for nothing.
        given = {key: value for key, value in given.items() if value is not None and value != []}
        if not accepts(function, context, **given):
            raise Unmodelled(f"the input {', '.join(sorted(given))}")
        return {"clientMutationId": client, **function(context, **given)}

    MUTATIONS[name] = run
    return function


def pull_of(context: Context, node_id: str) -> PullRequest:
    found: PullRequest = node_of(context, node_id, PullRequest)
    return found


# --- pull requests and issues ---


@mutation
def create_pull_request(
    context: Context,
    repositoryId: str,
    baseRefName: str,
    headRefName: str,
    title: str,
    body: str = "",
    draft: bool = False,
    headRepositoryId: str | None = None,
) -> dict[str, Any]:
    repository: Repository = node_of(context, repositoryId, Repository)
    source = None if headRepositoryId is None else node_of(context, headRepositoryId, Repository)
    pull = rules.create_pull_request(
        context.world,
        repository,
        context.viewer,
        title=title,
        body=body,
        base=baseRefName,
        head=headRefName,
        draft=draft,
        head_repository=source,
    )
    return {"pullRequest": pull}


@mutation
def update_pull_request(
    context: Context, pullRequestId: str, title: str | None = None, body: str | None = None
) -> dict[str, Any]:
    pull = pull_of(context, pullRequestId)
    rules.update_text(pull, title, body)
    return {"pullRequest": pull, "actor": context.viewer}


@mutation
def mark_pull_request_ready_for_review(context: Context, pullRequestId: str) -> dict[str, Any]:
    pull = pull_of(context, pullRequestId)
    rules.mark_ready(pull, draft=False)
    return {"pullRequest": pull}


@mutation
def convert_pull_request_to_draft(context: Context, pullRequestId: str) -> dict[str, Any]:
    pull = pull_of(context, pullRequestId)
    rules.mark_ready(pull, draft=True)
    return {"pullRequest": pull}


@mutation
def close_pull_request(context: Context, pullRequestId: str) -> dict[str, Any]:
    pull = pull_of(context, pullRequestId)
    rules.close_pull_request(pull)
    return {"pullRequest": pull}


@mutation
def reopen_pull_request(context: Context, pullRequestId: str) -> dict[str, Any]:
    pull = pull_of(context, pullRequestId)
    rules.reopen_pull_request(context.world, pull)
    return {"pullRequest": pull}


@mutation
def merge_pull_request(
    context: Context, pullRequestId: str, mergeMethod: str = "MERGE", expectedHeadOid: str | None = None
) -> dict[str, Any]:
    pull = pull_of(context, pullRequestId)
    if mergeMethod == "REBASE":
        raise Unmodelled("merging by rebase")
    rules.merge_pull_request(context.world, pull, context.viewer, mergeMethod, expectedHeadOid)
    return {"pullRequest": pull, "actor": context.viewer}


@mutation
def request_reviews(context: Context, pullRequestId: str, userIds: Ids = (), union: bool = False) -> dict[str, Any]:
    users: list[User] = [node_of(context, one, User) for one in userIds]
    return _request(context, pull_of(context, pullRequestId), users, union)


@mutation
def request_reviews_by_login(
    context: Context, pullRequestId: str, userLogins: Ids = (), union: bool = False
) -> dict[str, Any]:
    missing = [one for one in userLogins if one.lower() not in context.world.users]
    if missing:
        raise Refused(f"Could not resolve user with login '{missing[0]}'.", "NOT_FOUND")
    users = [context.world.users[one.lower()] for one in userLogins]
    return _request(context, pull_of(context, pullRequestId), users, union)


def _request(context: Context, pull: PullRequest, users: list[User], union: bool) -> dict[str, Any]:
    rules.request_reviews(context.world, pull, context.viewer, users)
    if not union:
        others = [one.user for one in pull.requests if one.user not in users]
        rules.withdraw_requests(context.world, pull, context.viewer, others)
    return {"pullRequest": pull, "actor": context.viewer}


@mutation
def create_issue(context: Context, repositoryId: str, title: str, body: str = "") -> dict[str, Any]:
    repository: Repository = node_of(context, repositoryId, Repository)
    return {"issue": rules.create_issue(context.world, repository, context.viewer, title, body)}


@mutation
def close_issue(context: Context, issueId: str, stateReason: Any = "COMPLETED") -> dict[str, Any]:
    if stateReason not in ("COMPLETED", "NOT_PLANNED"):
        raise Unmodelled(f"closing as {stateReason}")
    issue: Issue = node_of(context, issueId, Issue)
    rules.close_issue(issue, stateReason)
    return {"issue": issue}


@mutation
def reopen_issue(context: Context, issueId: str) -> dict[str, Any]:
    issue: Issue = node_of(context, issueId, Issue)
    rules.reopen_issue(issue)
    return {"issue": issue}


@mutation
def add_comment(context: Context, subjectId: str, body: str) -> dict[str, Any]:
    subject = node_of(context, subjectId)
    if not isinstance(subject, Issue | PullRequest):
        raise Refused(f"Could not resolve to a node with the global id of '{subjectId}'.", "NOT_FOUND")
    comment = rules.add_comment(context.world, subject, context.viewer, body)
    return {"subject": subject, "commentEdge": {"cursor": "", "node": comment}}


@mutation
def update_issue_comment(context: Context, id: str, body: str) -> dict[str, Any]:
    comment: Comment = node_of(context, id, Comment)
    rules.update_comment(comment, context.viewer, body)
    return {"issueComment": comment}


@mutation
def delete_issue_comment(context: Context, id: str) -> dict[str, Any]:
    rules.delete_comment(context.world, node_of(context, id, Comment), context.viewer)
    return {}


# --- reviews ---


def _draft(path: str, line: int, body: str, side: Any = "RIGHT", startLine: int | None = None) -> DraftComment:
    return DraftComment(path, line, body, side, startLine)


@mutation
def add_pull_request_review(
    context: Context,
    pullRequestId: str,
    event: str | None = None,
    body: str = "",
    commitOID: str | None = None,
    threads: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    drafts = []
    for thread in threads:
        thread.pop("startSide", None)
        drafts.append(_draft(**thread))
    pull = pull_of(context, pullRequestId)
    if event == "DISMISS":
        raise Refused("event DISMISS is not for new reviews")
    review = review_rules.add_review(
        context.world, pull, context.viewer, event=event, body=body, commit=commitOID, comments=drafts
    )
    return {"pullRequestReview": review, "reviewEdge": {"cursor": "", "node": review}}


def pending_review(context: Context, review_id: str | None, pull_id: str | None) -> Review:
    if review_id is not None:
        found: Review = node_of(context, review_id, Review)
        if found.state == "PENDING" and found.author is not context.viewer:
            raise Refused(f"Could not resolve to a node with the global id of '{review_id}'.", "NOT_FOUND")
        return found
    pull = pull_of(context, pull_id or "")
    mine = (one for one in pull.reviews if one.author is context.viewer and one.state == "PENDING")
    review = next(mine, None)
    if review is None:
        raise Refused("Could not find a pending review", "NOT_FOUND")
    return review


@mutation
def add_pull_request_review_thread(
    context: Context,
    path: str,
    body: str,
    line: int,
    pullRequestId: str | None = None,
    pullRequestReviewId: str | None = None,
    side: Any = "RIGHT",
    startLine: int | None = None,
) -> dict[str, Any]:
    """Off the diff, GitHub answers ``thread: null`` without an error and makes nothing: so does this."""
    review = None if pullRequestReviewId is None else pending_review(context, pullRequestReviewId, None)
    pull = review.pull if review is not None else pull_of(context, pullRequestId or "")
    try:
        thread = review_rules.add_thread(
            context.world, pull, review, context.viewer, _draft(path, line, body, side, startLine)
        )
    except Refused as refused:
        if refused.field.startswith("pull_request_review_thread."):
            return {"thread": None}
        raise
    return {"thread": thread}


@mutation
def submit_pull_request_review(
    context: Context,
    event: str,
    pullRequestReviewId: str | None = None,
    pullRequestId: str | None = None,
    body: str | None = None,
) -> dict[str, Any]:
    review = pending_review(context, pullRequestReviewId, pullRequestId)
    review_rules.submit_review(review, context.viewer, event, body)
    return {"pullRequestReview": review}


@mutation
def update_pull_request_review(context: Context, pullRequestReviewId: str, body: str) -> dict[str, Any]:
    review = pending_review(context, pullRequestReviewId, None)
    if review.author is not context.viewer:
        raise Refused("Only the author may change a review", "FORBIDDEN")
    review.body = rules.checked_body(body)
    return {"pullRequestReview": review}


@mutation
def dismiss_pull_request_review(context: Context, pullRequestReviewId: str, message: str) -> dict[str, Any]:
    review = pending_review(context, pullRequestReviewId, None)
    review_rules.dismiss_review(review, message)
    return {"pullRequestReview": review}


@mutation
def delete_pull_request_review(context: Context, pullRequestReviewId: str) -> dict[str, Any]:
    review = pending_review(context, pullRequestReviewId, None)
    review_rules.delete_review(context.world, review, context.viewer)
    return {"pullRequestReview": review}


@mutation
def add_pull_request_review_thread_reply(
    context: Context, pullRequestReviewThreadId: str, body: str, pullRequestReviewId: str | None = None
) -> dict[str, Any]:
    thread: Thread = node_of(context, pullRequestReviewThreadId, Thread)
    review = None if pullRequestReviewId is None else pending_review(context, pullRequestReviewId, None)
    return {"comment": review_rules.reply(context.world, thread, context.viewer, body, review)}


@mutation
def resolve_review_thread(context: Context, threadId: str) -> dict[str, Any]:
    thread: Thread = node_of(context, threadId, Thread)
    review_rules.set_resolved(thread, context.viewer, resolved=True)
    return {"thread": thread}


@mutation
def unresolve_review_thread(context: Context, threadId: str) -> dict[str, Any]:
    thread: Thread = node_of(context, threadId, Thread)
    review_rules.set_resolved(thread, context.viewer, resolved=False)
    return {"thread": thread}
