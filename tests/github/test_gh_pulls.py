"""The real gh against the stand-in: pull requests, their checks, comments and reviews."""

from __future__ import annotations

import json

import pytest

from tests.github.fixtures import NAME, URL, Shop
from tests.support.repos import git

EVERYTHING = (
    "additions,assignees,author,autoMergeRequest,baseRefName,baseRefOid,body,changedFiles,closed,closedAt,"
    "closingIssuesReferences,comments,commits,createdAt,deletions,files,fullDatabaseId,headRefName,headRefOid,"
    "headRepository,headRepositoryOwner,id,isCrossRepository,isDraft,labels,latestReviews,maintainerCanModify,"
    "mergeCommit,mergeStateStatus,mergeable,mergedAt,mergedBy,milestone,number,potentialMergeCommit,projectItems,"
    "reactionGroups,reviewDecision,reviewRequests,reviews,state,statusCheckRollup,title,updatedAt,url"
)


def test_a_pull_request_is_opened_for_a_branch_that_git_pushed(shop: Shop) -> None:
    head = shop.push("feature")
    git(shop.root, "checkout", "--quiet", "feature")
    assert shop.gh("pr", "create", "--fill", "--draft") == f"{URL}/pull/1"
    seen = shop.json("pr", "view", "1", "-R", NAME, "--json", "headRefOid,isDraft,title,author,baseRefOid,state")
    assert (seen["headRefOid"], seen["isDraft"], seen["state"]) == (head, True, "OPEN")
    assert (seen["title"], seen["author"]["login"]) == ("Write work.txt", "worker-1")
    assert seen["baseRefOid"] == git(shop.root, "rev-parse", "main")


def test_every_field_of_a_pull_request_that_gh_knows_is_answered(shop: Shop) -> None:
    number = shop.open(body="Closes #9")
    shop.gh("pr", "comment", str(number), "--body", "note")
    shop.gh("pr", "review", str(number), "--comment", "--body", "hm", login="conductor")
    seen = shop.json("pr", "view", str(number), "--json", EVERYTHING)
    assert set(EVERYTHING.split(",")) == set(seen)
    assert ([one["path"] for one in seen["files"]], seen["additions"]) == (["feature.txt"], 3)
    assert [one["body"] for one in seen["comments"]] == ["note"]
    assert [(one["author"]["login"], one["state"]) for one in seen["reviews"]] == [("conductor", "COMMENTED")]
    assert (seen["mergeable"], seen["mergeStateStatus"], seen["reviewDecision"]) == ("MERGEABLE", "CLEAN", "")
    assert shop.json("pr", "list", "--json", EVERYTHING) == [seen]


def test_a_second_one_for_the_branch_is_refused(shop: Shop) -> None:
    shop.open()
    told = shop.gh("pr", "create", "-R", NAME, "--head", "feature", "--title", "T", "--body", "B", code=1)
    assert "already exists" in told
    values = {"repositoryId": shop.github.repository(NAME).node_id, "baseRefName": "main", "headRefName": "feature"}
    refused = shop.refused("createPullRequest", {**values, "title": "T"})
    assert refused == "A pull request already exists for octo:feature."


def test_a_branch_without_commits_of_its_own_is_refused(shop: Shop) -> None:
    git(shop.root, "push", "--quiet", "origin", "main:empty")
    told = shop.gh("pr", "create", "-R", NAME, "--head", "empty", "--title", "T", "--body", "B", code=1)
    assert "No commits between main and empty" in told
    told = shop.gh("pr", "create", "-R", NAME, "--head", "absent", "--title", "T", "--body", "B", code=1)
    assert "Head ref must be a branch" in told


def test_states_change_as_gh_is_told(shop: Shop) -> None:
    number = str(shop.open())
    for words, field, value in (
        (("ready", "--undo"), "isDraft", True),
        (("ready",), "isDraft", False),
        (("close",), "state", "CLOSED"),
        (("reopen",), "state", "OPEN"),
    ):
        shop.gh("pr", words[0], number, *words[1:])
        assert shop.json("pr", "view", number, "--json", field) == {field: value}


def test_a_closed_one_stays_closed_when_its_branch_is_gone_or_was_pushed_by_force(shop: Shop) -> None:
    number = str(shop.open())
    shop.gh("pr", "close", number)
    shop.amend("feature", "feature.txt", "other\n")
    assert "Could not open the pull request" in shop.gh("pr", "reopen", number, code=1)
    git(shop.root, "push", "--quiet", "origin", ":feature")
    assert "Could not open the pull request" in shop.gh("pr", "reopen", number, code=1)


def test_the_diff_is_what_the_branch_brings(shop: Shop) -> None:
    number = str(shop.open())
    shop.push("main", "elsewhere.txt")
    diff = shop.gh("pr", "diff", number)
    assert "+three" in diff
    assert "elsewhere" not in diff


def test_nobody_approves_their_own(shop: Shop) -> None:
    number = str(shop.open())
    for way, verb in (("--approve", "approve"), ("--request-changes", "request changes on")):
        told = shop.gh("pr", "review", number, way, "--body", "b", code=1)
        assert f"Can not {verb} your own pull request" in told
    shop.gh("pr", "review", number, "--comment", "--body", "b")
    shop.gh("pr", "review", number, "--approve", login="conductor")
    seen = shop.json("pr", "view", number, "--json", "latestReviews,reviewDecision")
    assert [one["state"] for one in seen["latestReviews"]] == ["APPROVED"]
    assert seen["reviewDecision"] == ""  # gh's word for null: no review is required here


def test_where_reviews_are_required_the_decision_follows_them(shop: Shop) -> None:
    shop.github.repository(NAME).protection.reviews = True
    number = str(shop.open())
    seen = [shop.json("pr", "view", number, "--json", "reviewDecision")["reviewDecision"]]
    for way in ("--request-changes", "--approve"):
        shop.gh("pr", "review", number, way, "--body", "b", login="conductor")
        seen.append(shop.json("pr", "view", number, "--json", "reviewDecision")["reviewDecision"])
    assert seen == ["REVIEW_REQUIRED", "CHANGES_REQUESTED", "APPROVED"]


def test_reviewers_are_asked_for_and_the_author_is_not(shop: Shop) -> None:
    number = str(shop.open())
    shop.gh("pr", "edit", number, "--add-reviewer", "conductor")
    seen = shop.json("pr", "view", number, "--json", "reviewRequests")["reviewRequests"]
    assert [one["login"] for one in seen] == ["conductor"]
    told = shop.gh("pr", "edit", number, "--add-reviewer", "worker-1", code=1)
    assert "Review cannot be requested from pull request author" in told
    shop.gh("pr", "edit", number, "--remove-reviewer", "conductor")
    assert shop.json("pr", "view", number, "--json", "reviewRequests") == {"reviewRequests": []}


def test_checks_and_statuses_are_told_with_what_is_required(shop: Shop) -> None:
    number = str(shop.open())
    head = shop.github.pull(NAME, 1).head
    shop.github.repository(NAME).protection.checks = ("unit",)
    assert "no checks reported" in shop.gh("pr", "checks", number, code=1)
    shop.github.put_check(NAME, head, "unit", "FAILURE")
    shop.github.put_check(NAME, head, "lint", status="IN_PROGRESS")
    shop.github.put_status(NAME, head, "license/cla", "SUCCESS", description="signed")
    seen = shop.run("pr", "checks", number, "--json", "name,bucket,workflow")
    assert seen.returncode == 0
    rollup = shop.json("pr", "view", number, "--json", "headRefOid,statusCheckRollup")
    assert rollup["headRefOid"] == head
    runs = {one["name"]: one["conclusion"] for one in rollup["statusCheckRollup"] if "name" in one}
    contexts = {one["context"]: one["state"] for one in rollup["statusCheckRollup"] if "context" in one}
    assert runs == {"unit": "FAILURE", "lint": ""}
    assert contexts == {"license/cla": "SUCCESS"}
    listed = [(one["name"], one["bucket"]) for one in json.loads(seen.stdout)]
    assert sorted(listed) == [("license/cla", "pass"), ("lint", "pending"), ("unit", "fail")]
    assert "unit\tfail" in shop.gh("pr", "checks", number, "--required", code=1)


@pytest.mark.parametrize("verb", ["view", "close", "ready", "comment"])
def test_a_number_that_is_not_there_is_told(shop: Shop, verb: str) -> None:
    more = ("--body", "b") if verb == "comment" else ()
    told = shop.gh("pr", verb, "77", "-R", NAME, *more, code=1)
    assert "Could not resolve to a PullRequest with the number of 77" in told


def test_an_archived_repository_is_read_and_not_written(shop: Shop) -> None:
    number = str(shop.open())
    shop.github.repository(NAME).archived = True
    assert shop.json("pr", "view", number, "--json", "state") == {"state": "OPEN"}
    assert "archived so is read-only" in shop.gh("pr", "comment", number, "--body", "b", code=1)


def test_a_merge_by_somebody_is_seen_and_closes_the_issue(shop: Shop) -> None:
    shop.gh("issue", "create", "--title", "Bug", "--body", "b")
    number = str(shop.open(body="Fixes #1"))
    shop.gh("pr", "merge", number, "--squash", login="conductor")
    seen = shop.json("pr", "view", number, "--json", "state,mergedBy,mergeCommit")
    assert (seen["state"], seen["mergedBy"]["login"]) == ("MERGED", "conductor")
    git(shop.root, "fetch", "--quiet", "origin")
    assert seen["mergeCommit"]["oid"] == git(shop.root, "rev-parse", "origin/main")
    assert shop.json("issue", "view", "1", "--json", "state") == {"state": "CLOSED"}


def test_the_head_repository_of_a_deleted_fork_is_null(shop: Shop) -> None:
    fork = shop.github.fork(NAME, "guest")
    git(shop.root, "push", "--quiet", str(fork.path), f"{shop.push('feature')}:refs/heads/theirs")
    shop.github.world.refresh()
    opened = shop.gh("pr", "create", "-R", NAME, "--head", "guest:theirs", "--title", "T", "--body", "B", login="guest")
    assert opened == f"{URL}/pull/1"
    fields = ("pr", "view", "1", "-R", NAME, "--json", "headRepository,isCrossRepository,headRefName")
    assert shop.json(*fields)["headRepository"]["name"] == "shop"
    shop.github.delete("guest/shop")
    seen = shop.json(*fields)
    assert (seen["headRepository"], seen["isCrossRepository"]) == (None, True)
