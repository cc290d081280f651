"""Answers to GraphQL fields of pull requests, reviews, review threads and their timeline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.github import bare
from tests.github.fields import (
    SUBJECT,
    TEXT,
    association,
    commit_node,
    constant,
    page_url,
    ref_of,
)
from tests.github.graphql import FIELDS, TYPES, Context, Unmodelled, connection
from tests.github.model import (
    ForcePush,
    Issue,
    PullCommit,
    PullRequest,
    RequestEvent,
    Review,
    ReviewComment,
    ReviewRequest,
    Thing,
    Thread,
    stamp,
)
from tests.github.review_rules import review_decision

CLOSES = re.compile(r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+#(\d+)\b")


def commits_of(pull: PullRequest) -> tuple[str, ...]:
    """Oldest first."""
    return bare.commits_between(pull.repository.path, pull.base_oid, pull.head)


def changes_of(pull: PullRequest) -> tuple[bare.FileChange, ...]:
    return bare.changes(pull.repository.path, pull.base_oid, pull.head)


def closed_issues(pull: PullRequest) -> list[Issue]:
    """The issues that its body says it closes."""
    found = (pull.repository.numbered.get(int(number)) for number in CLOSES.findall(pull.body))
    return list({one.number: one for one in found if isinstance(one, Issue)}.values())


def conflicts(pull: PullRequest) -> bool:
    base = bare.heads(pull.repository.path).get(pull.base_branch, pull.base_oid)
    try:
        bare.git(pull.repository.path, "merge-tree", "--write-tree", base, pull.head)
    except bare.GitError:
        return True
    return False


def _mergeable(pull: PullRequest, _: Context) -> str:
    if pull.state != "OPEN":
        return "UNKNOWN"
    return "CONFLICTING" if conflicts(pull) else "MERGEABLE"


def _merge_state(pull: PullRequest, _: Context) -> str:
    if pull.state != "OPEN":
        return "UNKNOWN"
    if conflicts(pull):
        return "DIRTY"
    if pull.draft:
        return "DRAFT"
    unmet = review_decision(pull) in ("REVIEW_REQUIRED", "CHANGES_REQUESTED")
    needed = set(pull.repository.protection.checks) if pull.base_branch == pull.repository.default_branch else set()
    passed = {
        run.name
        for suite in pull.repository.suites
        for run in suite.runs
        if suite.oid == pull.head and run.conclusion in ("SUCCESS", "NEUTRAL", "SKIPPED")
    }
    passed |= {one.context for one in pull.repository.statuses if one.oid == pull.head and one.state == "SUCCESS"}
    return "BLOCKED" if unmet or needed - passed else "CLEAN"


def _commits(pull: PullRequest, context: Context, **asked: Any) -> dict[str, Any]:
    nodes = [context.world.pull_commit(pull, oid) for oid in commits_of(pull)]
    return connection(nodes, "commits", **asked)


_CHANGE_TYPES = {"removed": "DELETED"}


def _files(pull: PullRequest, _: Context, **asked: Any) -> dict[str, Any]:
    nodes = [
        {
            "path": one.path,
            "additions": one.additions,
            "deletions": one.deletions,
            "changeType": _CHANGE_TYPES.get(one.status, one.status.upper()),
            "viewerViewedState": "UNVIEWED",
        }
        for one in changes_of(pull)
    ]
    return connection(nodes, "files", **asked)


def _reviews(
    pull: PullRequest, context: Context, states: Any = None, author: str | None = None, **asked: Any
) -> dict[str, Any]:
    chosen = [
        one
        for one in pull.visible_reviews(context.viewer)
        if (states is None or one.state in states) and author in (None, one.author.login)
    ]
    return connection(chosen, "reviews", **asked)


def _latest_reviews(
    pull: PullRequest, context: Context, writersOnly: bool | None = False, **asked: Any
) -> dict[str, Any]:
    submitted = [one for one in pull.reviews if one.state != "PENDING" and one.author is not pull.author]
    return connection(list({one.author.login: one for one in submitted}.values()), "latestReviews", **asked)


def _latest_opinions(
    pull: PullRequest, context: Context, writersOnly: bool | None = False, **asked: Any
) -> dict[str, Any]:
    opinions = [one for one in pull.reviews if one.state in ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")]
    return connection(list({one.author.login: one for one in opinions}.values()), "latestOpinionatedReviews", **asked)


_TIMELINE: dict[str, str] = {
    "PULL_REQUEST_COMMIT": "commit",
    "HEAD_REF_FORCE_PUSHED_EVENT": "force",
    "ISSUE_COMMENT": "comment",
    "PULL_REQUEST_REVIEW": "review",
    "REVIEW_REQUESTED_EVENT": "requested",
    "REVIEW_REQUEST_REMOVED_EVENT": "removed",
}


def _timeline(
    pull: PullRequest, context: Context, itemTypes: Sequence[str] | None = None, **asked: Any
) -> dict[str, Any]:
    missing = sorted(set(itemTypes or ()) - set(_TIMELINE)) if itemTypes else ["without itemTypes"]
    if missing:
        raise Unmodelled(f"item types {', '.join(missing)}")
    wanted = {_TIMELINE[one] for one in itemTypes or ()}
    items: list[tuple[Any, int, Thing]] = []
    if "commit" in wanted:
        for place, oid in enumerate(commits_of(pull)):
            items.append((_pushed_at(pull, oid), place, context.world.pull_commit(pull, oid)))
    if "force" in wanted:
        moment_of_head = {push.oid: push.visible_at for push in pull.pushes}
        shown = [one for one in pull.force_pushes if moment_of_head[one.after] <= _shown_until(pull)]
        items += [(one.created_at, 0, one) for one in shown]
    if "comment" in wanted:
        items += [(one.created_at, one.id, one) for one in pull.comments]
    if "review" in wanted:
        reviews = pull.visible_reviews(context.viewer)
        items += [(one.submitted_at or one.created_at, one.id, one) for one in reviews]
    for word, removed in (("requested", False), ("removed", True)):
        if word in wanted:
            items += [(one.created_at, one.id, one) for one in pull.request_events if one.removed == removed]
    items.sort(key=lambda item: item[:2])
    return connection([item[2] for item in items], "timelineItems", **asked) | {"filteredCount": len(items)}


def _shown_until(pull: PullRequest) -> Any:
    """When the head that the API shows became visible."""
    return next(push.visible_at for push in pull.pushes if push.oid == pull.head)


def _pushed_at(pull: PullRequest, oid: str) -> Any:
    """When the pull request first had this commit."""
    for push in pull.pushes:
        if oid == push.oid or bare.is_ancestor(pull.repository.path, oid, push.oid):
            return push.at
    return pull.created_at


def _closing(pull: PullRequest, _: Context, userLinkedOnly: bool | None = False, **asked: Any) -> dict[str, Any]:
    return connection([] if userLinkedOnly else closed_issues(pull), "closingIssuesReferences", **asked)


TYPES[PullRequest] = "PullRequest"
FIELDS["PullRequest"] = SUBJECT | {
    "isDraft": lambda pull, _: pull.draft,
    "merged": lambda pull, _: pull.state == "MERGED",
    "mergedAt": lambda pull, _: stamp(pull.merged_at),
    "mergedBy": lambda pull, _: pull.merged_by,
    "mergeCommit": lambda pull, _: commit_node(pull.repository, pull.merge_oid) if pull.merge_oid else None,
    "headRefName": lambda pull, _: pull.head_branch,
    "headRefOid": lambda pull, _: pull.head,
    "headRef": lambda pull, _: ref_of(pull.head_repository, pull.head_branch) if _has_head(pull) else None,
    "headRepository": lambda pull, _: pull.head_repository if _has_head(pull) else None,
    "headRepositoryOwner": lambda pull, _: pull.head_repository.owner if _has_head(pull) else None,
    "isCrossRepository": lambda pull, _: pull.head_repository is not pull.repository,
    "baseRefName": lambda pull, _: pull.base_branch,
    "baseRefOid": lambda pull, _: pull.base_oid,
    "baseRef": lambda pull, _: ref_of(pull.repository, pull.base_branch),
    "baseRepository": lambda pull, _: pull.repository,
    "additions": lambda pull, _: sum(one.additions for one in changes_of(pull)),
    "deletions": lambda pull, _: sum(one.deletions for one in changes_of(pull)),
    "changedFiles": lambda pull, _: len(changes_of(pull)),
    "commits": _commits,
    "files": _files,
    "mergeable": _mergeable,
    "mergeStateStatus": _merge_state,
    "maintainerCanModify": constant(False),
    "potentialMergeCommit": constant(None),
    "autoMergeRequest": constant(None),
    "isInMergeQueue": constant(False),
    "isMergeQueueEnabled": constant(False),
    "reviewDecision": lambda pull, _: review_decision(pull),
    "reviews": _reviews,
    "latestReviews": _latest_reviews,
    "latestOpinionatedReviews": _latest_opinions,
    "reviewRequests": lambda pull, _, **asked: connection(pull.requests, "reviewRequests", **asked),
    "reviewThreads": lambda pull, context, **asked: connection(
        pull.visible_threads(context.viewer), "reviewThreads", **asked
    ),
    "timelineItems": _timeline,
    "closingIssuesReferences": _closing,
    "statusCheckRollup": lambda pull, context: FIELDS["Commit"]["statusCheckRollup"](
        commit_node(pull.repository, pull.head), context
    ),
}
FIELDS["Issue"]["closedByPullRequestsReferences"] = (
    lambda issue, _, includeClosedPrs=False, orderByState=False, userLinkedOnly=False, **asked: connection(
        [
            one
            for one in issue.repository.pulls
            # Nothing is linked here but by the text of a pull request.
            if not userLinkedOnly and issue in closed_issues(one) and (includeClosedPrs or one.state != "CLOSED")
        ],
        "closedByPullRequestsReferences",
        **asked,
    )
)


def _has_head(pull: PullRequest) -> bool:
    return pull.head_repository is not None and not pull.head_repository.deleted


TYPES.update({PullCommit: "PullRequestCommit", ForcePush: "HeadRefForcePushedEvent", ReviewRequest: "ReviewRequest"})
FIELDS["PullRequestCommit"] = {
    "id": lambda one, _: one.node_id,
    "commit": lambda one, _: commit_node(one.pull.repository, one.oid),
    "pullRequest": lambda one, _: one.pull,
    "url": lambda one, context: f"{page_url(one.pull, context)}/commits/{one.oid}",
}
FIELDS["HeadRefForcePushedEvent"] = {
    "id": lambda one, _: one.node_id,
    "actor": lambda one, _: one.actor,
    "createdAt": lambda one, _: stamp(one.created_at),
    "beforeCommit": lambda one, _: commit_node(one.pull.repository, one.before),
    "afterCommit": lambda one, _: commit_node(one.pull.repository, one.after),
    "pullRequest": lambda one, _: one.pull,
}
FIELDS["ReviewRequest"] = {
    "id": lambda one, _: one.node_id,
    "databaseId": lambda one, _: one.id,
    "asCodeOwner": constant(False),
    "requestedReviewer": lambda one, _: one.user,
    "pullRequest": lambda one, _: one.pull,
}


FIELDS["ReviewRequestedEvent"] = {
    "id": lambda one, _: one.node_id,
    "actor": lambda one, _: one.actor,
    "createdAt": lambda one, _: stamp(one.created_at),
    "requestedReviewer": lambda one, _: one.user,
    "pullRequest": lambda one, _: one.pull,
}
FIELDS["ReviewRequestRemovedEvent"] = FIELDS["ReviewRequestedEvent"]
TYPES[RequestEvent] = "ReviewRequestedEvent"

# --- reviews and threads ---


def review_url(review: Review, context: Context) -> str:
    return f"{page_url(review.pull, context)}#pullrequestreview-{review.id}"


TYPES[Review] = "PullRequestReview"
FIELDS["PullRequestReview"] = TEXT | {
    "id": lambda review, _: review.node_id,
    "databaseId": lambda review, _: review.id,
    "fullDatabaseId": lambda review, _: str(review.id),
    "author": lambda review, _: review.author,
    "authorAssociation": lambda review, _: association(review.pull, review.author),
    "body": lambda review, _: review.body,
    "state": lambda review, _: review.state,
    "commit": lambda review, _: commit_node(review.pull.repository, review.commit),
    "createdAt": lambda review, _: stamp(review.created_at),
    "updatedAt": lambda review, _: stamp(review.submitted_at or review.created_at),
    "submittedAt": lambda review, _: stamp(review.submitted_at),
    "publishedAt": lambda review, _: stamp(review.submitted_at),
    "url": review_url,
    "pullRequest": lambda review, _: review.pull,
    "repository": lambda review, _: review.pull.repository,
    "comments": lambda review, _, **asked: connection(review.comments, "comments", **asked),
}


def line_now(thread: Thread) -> int | None:
    """Where its line stands in the head; None where that line was changed since."""
    if thread.side == "LEFT":
        return thread.line
    pull = thread.pull
    return bare.follow_line(pull.repository.path, thread.path, thread.line, thread.commit, pull.head)


def start_line_now(thread: Thread) -> int | None:
    at = line_now(thread)
    return None if at is None or thread.start_line is None else at - (thread.line - thread.start_line)


def _thread_comments(thread: Thread, context: Context, **asked: Any) -> dict[str, Any]:
    return connection(PullRequest.visible_comments(thread, context.viewer), "comments", **asked)


TYPES[Thread] = "PullRequestReviewThread"
FIELDS["PullRequestReviewThread"] = {
    "id": lambda thread, _: thread.node_id,
    "path": lambda thread, _: thread.path,
    "line": lambda thread, _: line_now(thread),
    "originalLine": lambda thread, _: thread.line,
    "startLine": lambda thread, _: start_line_now(thread),
    "originalStartLine": lambda thread, _: thread.start_line,
    "diffSide": lambda thread, _: thread.side,
    "startDiffSide": lambda thread, _: thread.side if thread.start_line else None,
    "subjectType": constant("LINE"),
    "isResolved": lambda thread, _: thread.resolved_by is not None,
    "isCollapsed": lambda thread, _: thread.resolved_by is not None,
    "isOutdated": lambda thread, _: line_now(thread) is None,
    "resolvedBy": lambda thread, _: thread.resolved_by,
    "viewerCanReply": constant(True),
    "viewerCanResolve": lambda thread, _: thread.resolved_by is None,
    "viewerCanUnresolve": lambda thread, _: thread.resolved_by is not None,
    "pullRequest": lambda thread, _: thread.pull,
    "repository": lambda thread, _: thread.pull.repository,
    "comments": _thread_comments,
}

TYPES[ReviewComment] = "PullRequestReviewComment"
FIELDS["PullRequestReviewComment"] = TEXT | {
    "id": lambda comment, _: comment.node_id,
    "databaseId": lambda comment, _: comment.id,
    "fullDatabaseId": lambda comment, _: str(comment.id),
    "author": lambda comment, _: comment.author,
    "authorAssociation": lambda comment, _: association(comment.thread.pull, comment.author),
    "body": lambda comment, _: comment.body,
    "path": lambda comment, _: comment.thread.path,
    "line": lambda comment, _: line_now(comment.thread),
    "originalLine": lambda comment, _: comment.thread.line,
    "startLine": lambda comment, _: start_line_now(comment.thread),
    "originalStartLine": lambda comment, _: comment.thread.start_line,
    "diffHunk": lambda comment, _: comment.thread.hunk,
    "outdated": lambda comment, _: line_now(comment.thread) is None,
    "state": lambda comment, _: "PENDING" if comment.review.state == "PENDING" else "SUBMITTED",
    "subjectType": constant("LINE"),
    "createdAt": lambda comment, _: stamp(comment.created_at),
    "updatedAt": lambda comment, _: stamp(comment.created_at),
    "publishedAt": lambda comment, _: stamp(comment.review.submitted_at),
    "commit": lambda comment, _: commit_node(comment.thread.pull.repository, comment.review.commit),
    "originalCommit": lambda comment, _: commit_node(comment.thread.pull.repository, comment.thread.commit),
    "pullRequestReview": lambda comment, _: comment.review,
    "pullRequest": lambda comment, _: comment.thread.pull,
    "replyTo": lambda comment, _: comment.reply_to,
    "repository": lambda comment, _: comment.thread.pull.repository,
    "url": lambda comment, context: f"{page_url(comment.thread.pull, context)}#discussion_r{comment.id}",
}
