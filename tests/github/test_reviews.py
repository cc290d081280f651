"""GitHub's rules for reviews and review threads, at both doors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.github.fixtures import NAME, Shop

REVIEWS = f"/repos/{NAME}/pulls/1/reviews"
THREADS = (
    "reviewThreads(first:50){nodes{id path line originalLine isOutdated isResolved resolvedBy{login} "
    "comments(first:50){nodes{body author{login} state pullRequestReview{id}}}}}"
)


def staged(shop: Shop, line: int = 1, **more: Any) -> dict[str, Any]:
    """A pending review of the conductor with one comment."""
    comments = [{"path": "feature.txt", "line": line, "side": "RIGHT", "body": "Why?"}]
    status, review, _ = shop.send("POST", REVIEWS, {"body": "Mend it.", "comments": comments, **more})
    assert status == 200, review
    found: dict[str, Any] = review
    return found


def threads(shop: Shop, login: str = "conductor") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.pull(1, THREADS, login)["reviewThreads"]["nodes"]
    return found


def test_a_pending_review_is_seen_by_its_author_alone(shop: Shop) -> None:
    shop.open()
    review = staged(shop)
    assert (review["state"], "submitted_at" in review) == ("PENDING", False)
    fields = "reviews(first:10){totalCount nodes{state comments(first:1){totalCount}}}"
    assert shop.pull(1, fields)["reviews"]["nodes"] == [{"state": "PENDING", "comments": {"totalCount": 1}}]
    assert shop.pull(1, fields, "worker-1")["reviews"]["totalCount"] == 0
    assert threads(shop, "worker-1") == []
    assert shop.send("GET", REVIEWS, login="worker-1")[1] == []
    assert shop.send("GET", f"{REVIEWS}/{review['id']}", login="worker-1")[0] == 404
    status, done, _ = shop.send("POST", f"{REVIEWS}/{review['id']}/events", {"event": "REQUEST_CHANGES"})
    assert (status, done["state"], done["body"]) == (200, "CHANGES_REQUESTED", "Mend it.")
    (thread,) = threads(shop, "worker-1")
    assert (thread["path"], thread["line"], thread["comments"]["nodes"][0]["body"]) == ("feature.txt", 1, "Why?")


def test_a_login_has_one_pending_review(shop: Shop) -> None:
    shop.open()
    review = staged(shop)
    status, told, _ = shop.send("POST", REVIEWS, {"body": "again"})
    assert (status, told["errors"]) == (422, ["User can only have one pending review per pull request"])
    given = {"pullRequestId": shop.github.pull(NAME, 1).node_id, "event": "COMMENT", "body": "b"}
    assert "one pending review" in shop.refused("addPullRequestReview", given)
    shop.mutate("addPullRequestReview", given, "pullRequestReview{state}", "worker-1")
    assert shop.send("DELETE", f"{REVIEWS}/{review['id']}")[0] == 200
    assert shop.send("DELETE", f"{REVIEWS}/{review['id']}")[0] == 404
    assert threads(shop) == []
    staged(shop)


def test_a_comment_must_be_on_a_line_of_the_diff(shop: Shop) -> None:
    shop.open()
    for path, line in (("feature.txt", 40), ("README.md", 1)):
        comments = [{"path": path, "line": line, "body": "b"}]
        assert shop.send("POST", REVIEWS, {"body": "b", "comments": comments})[0] == 422
    head = shop.github.pull(NAME, 1).head
    single = {"commit_id": head, "path": "feature.txt", "line": 40, "body": "b"}
    status, told, _ = shop.send("POST", f"/repos/{NAME}/pulls/1/comments", single)
    assert (status, told["errors"][0]["message"]) == (
        422,
        "pull_request_review_thread.line must be part of the diff",
    )
    assert shop.github.pull(NAME, 1).reviews == []


def test_off_the_diff_graphql_answers_a_null_thread_and_no_error(shop: Shop) -> None:
    shop.open()
    review = shop.mutate(
        "addPullRequestReview", {"pullRequestId": shop.github.pull(NAME, 1).node_id}, "pullRequestReview{id}"
    )["pullRequestReview"]["id"]
    given = {"pullRequestReviewId": review, "path": "feature.txt", "body": "b"}
    assert shop.mutate("addPullRequestReviewThread", {**given, "line": 40}, "thread{id}") == {"thread": None}
    made = shop.mutate("addPullRequestReviewThread", {**given, "line": 2}, "thread{line}")
    assert made == {"thread": {"line": 2}}
    assert len(threads(shop)) == 1


def test_a_thread_is_answered_resolved_and_opened_again(shop: Shop) -> None:
    shop.open()
    review = staged(shop)
    shop.mutate(
        "submitPullRequestReview", {"pullRequestReviewId": review["node_id"], "event": "COMMENT"}, "clientMutationId"
    )
    (thread,) = threads(shop)
    reply = {"pullRequestReviewThreadId": thread["id"], "body": "Because."}
    shop.mutate("addPullRequestReviewThreadReply", reply, "comment{id}", "worker-1")
    first = shop.send("GET", f"/repos/{NAME}/pulls/1/comments")[1][0]
    answered = f"/repos/{NAME}/pulls/1/comments/{first['id']}/replies"
    assert shop.send("POST", answered, {"body": "I see."})[1]["in_reply_to_id"] == first["id"]
    shop.mutate("resolveReviewThread", {"threadId": thread["id"]}, "thread{isResolved}", "worker-1")
    (thread,) = threads(shop)
    said = [(one["author"]["login"], one["body"]) for one in thread["comments"]["nodes"]]
    assert said == [("conductor", "Why?"), ("worker-1", "Because."), ("conductor", "I see.")]
    assert (thread["isResolved"], thread["resolvedBy"]) == (True, {"login": "worker-1"})
    shop.mutate("unresolveReviewThread", {"threadId": thread["id"]}, "thread{isResolved}")
    assert not threads(shop)[0]["isResolved"]


def test_a_thread_follows_its_line_and_is_outdated_when_that_changes(shop: Shop) -> None:
    shop.open()
    staged(shop, line=2)
    shop.push("feature", "feature.txt", "zero\none\ntwo\nthree\n")
    (thread,) = threads(shop)
    assert (thread["line"], thread["originalLine"], thread["isOutdated"]) == (3, 2, False)
    shop.push("feature", "feature.txt", "zero\none\nother\nthree\n")
    (thread,) = threads(shop)
    assert (thread["line"], thread["originalLine"], thread["isOutdated"]) == (None, 2, True)


def test_a_review_stays_pinned_to_its_commit(shop: Shop) -> None:
    shop.open()
    first = shop.github.pull(NAME, 1).head
    second = shop.push("feature", "more.txt")
    review = staged(shop, commit_id=first)
    assert (review["commit_id"], shop.pull(1, "headRefOid")) == (first, {"headRefOid": second})
    assert shop.send("POST", REVIEWS, {"body": "b", "commit_id": "f" * 40}, "worker-1")[0] == 422


def test_a_verdict_is_dismissed(shop: Shop) -> None:
    shop.open()
    review = staged(shop, event="APPROVE")
    status, told, _ = shop.send("PUT", f"{REVIEWS}/{review['id']}/dismissals", {"message": "too old"})
    assert (status, told["state"]) == (200, "DISMISSED")
    again = {"pullRequestReviewId": review["node_id"], "message": "m"}
    assert "Can not dismiss" in shop.refused("dismissPullRequestReview", again)


@pytest.mark.parametrize("event", ["APPROVE", "REQUEST_CHANGES"])
def test_a_verdict_on_ones_own_is_refused_at_both_doors(shop: Shop, event: str) -> None:
    shop.open()
    status, told, _ = shop.send("POST", REVIEWS, {"event": event, "body": "b"}, "worker-1")
    assert status == 422
    assert "your own pull request" in told["errors"][0]
    given = {"pullRequestId": shop.github.pull(NAME, 1).node_id, "event": event, "body": "b"}
    assert "your own pull request" in shop.refused("addPullRequestReview", given, "worker-1")


def test_whoever_has_reviewed_is_not_asked_any_longer(shop: Shop) -> None:
    shop.open()
    asked = f"/repos/{NAME}/pulls/1/requested_reviewers"
    assert shop.send("POST", asked, {"reviewers": ["conductor"]}, "worker-1")[0] == 201
    assert [one["login"] for one in shop.send("GET", asked)[1]["users"]] == ["conductor"]
    assert shop.send("POST", asked, {"reviewers": ["worker-1"]})[0] == 422
    assert shop.send("POST", asked, {"reviewers": ["stranger"]})[0] == 422
    staged(shop, event="COMMENT")
    assert shop.send("GET", asked)[1]["users"] == []
    kinds = "[REVIEW_REQUESTED_EVENT, PULL_REQUEST_REVIEW]"
    timeline = shop.pull(1, f"timelineItems(first:9,itemTypes:{kinds}){{nodes{{__typename}}}}")["timelineItems"]
    assert [one["__typename"] for one in timeline["nodes"]] == ["ReviewRequestedEvent", "PullRequestReview"]
