"""The real gh against the stand-in: issues, the repository, whoever is logged in, pull requests found by search."""

from __future__ import annotations

from tests.github.fixtures import NAME, URL, Shop


def test_issues_and_pull_requests_share_their_numbers(shop: Shop) -> None:
    assert shop.gh("issue", "create", "--title", "One", "--body", "- [ ] done") == f"{URL}/issues/1"
    assert shop.open() == 2
    assert shop.gh("issue", "create", "--title", "Two", "--body", "") == f"{URL}/issues/3"
    assert [one["number"] for one in shop.json("issue", "list", "--json", "number")] == [3, 1]
    assert shop.json("issue", "view", "1", "--json", "title,body,state") == {
        "title": "One",
        "body": "- [ ] done",
        "state": "OPEN",
    }
    assert shop.json("issue", "view", "2", "--json", "number,title") == {"number": 2, "title": "feature"}


def test_a_closed_issue_is_listed_no_more(shop: Shop) -> None:
    shop.gh("issue", "create", "--title", "One", "--body", "b")
    shop.gh("issue", "close", "1", "--reason", "not planned", "--comment", "bye")
    assert shop.json("issue", "list", "--json", "number") == []
    seen = shop.json("issue", "view", "1", "--json", "state,stateReason,comments")
    assert (seen["state"], seen["stateReason"], seen["comments"][0]["body"]) == ("CLOSED", "NOT_PLANNED", "bye")
    shop.gh("issue", "reopen", "1")
    assert "One" in shop.gh("issue", "view", "1")
    assert "Could not resolve" in shop.gh("issue", "view", "77", code=1)


def test_the_repository_and_the_login_are_told(shop: Shop) -> None:
    seen = shop.json("repo", "view", "--json", "nameWithOwner,defaultBranchRef,isArchived,viewerPermission,parent")
    assert seen == {
        "nameWithOwner": NAME,
        "defaultBranchRef": {"name": "main"},
        "isArchived": False,
        "viewerPermission": "WRITE",
        "parent": None,
    }
    assert "Text 1" in shop.gh("repo", "view", NAME)
    assert shop.gh("api", "user", "--jq", ".login", login="conductor") == "conductor"
    assert "'repo', 'read:org', 'gist', 'workflow'" in shop.gh("auth", "status")
    assert "Could not resolve to a Repository" in shop.gh("repo", "view", "octo/absent", code=1)


def test_pull_requests_are_found_by_author_and_for_the_viewer(shop: Shop) -> None:
    shop.open("mine")
    shop.open("theirs", login="conductor")
    shop.gh("pr", "edit", "2", "--add-reviewer", "worker-1")
    assert [one["number"] for one in shop.json("pr", "list", "--author", "@me", "--json", "number")] == [1]
    assert [one["number"] for one in shop.json("pr", "list", "--search", "theirs", "--json", "number")] == [2]
    status = shop.json("pr", "status", "--json", "number")
    assert [one["number"] for one in status["createdBy"]] == [1]
    assert [one["number"] for one in status["needsReview"]] == [2]
