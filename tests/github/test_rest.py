"""The REST door: requests and answers are as GitHub describes them, or the test fails."""

from __future__ import annotations

import pytest

from tests.github import openapi, rest
from tests.github.fixtures import NAME, Shop
from tests.github.rest import Asked
from tests.github.test_graphql import complained
from tests.github.web import Answer

PULL = f"/repos/{NAME}/pulls/1"


def violations(shop: Shop) -> list[str]:
    """What was recorded, which then does not fail the test."""
    found, shop.github.server.violations[:] = list(shop.github.server.violations), []
    return found


def test_a_path_that_is_not_modelled_is_501_and_recorded(shop: Shop) -> None:
    told = shop.gh("api", f"repos/{NAME}/topics", code=1)
    assert "HTTP 501" in told
    assert complained(shop.github) == [f"GET /repos/{NAME}/topics"]


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", f"{PULL}/reviews", {"event": "LGTM"}, "LGTM"),
        ("POST", f"{PULL}/reviews", {"body": 3}, "not of type 'string'"),
        ("POST", f"{PULL}/reviews", {"commit": "x"}, "no property commit"),
        ("POST", f"/repos/{NAME}/issues/1/comments", {}, "'body' is a required property"),
        ("POST", f"/repos/{NAME}/issues/1/comments", None, "its body is missing"),
        ("GET", f"{PULL}/reviews?perpage=3", None, "no query parameter perpage"),
        ("GET", "/repos/octo/shop/pulls/one", None, "not of type 'integer'"),
    ],
)
def test_a_request_that_the_description_does_not_allow_fails(
    shop: Shop, method: str, path: str, body: object, words: str
) -> None:
    shop.open()
    assert shop.send(method, path, body)[0] == 422
    with pytest.raises(AssertionError, match="GitHub describes"):
        shop.github.assert_honest()
    (found,) = violations(shop)
    assert words in found


def test_an_answer_that_is_not_as_described_fails(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def lazy(_: Asked) -> Answer:
        return Answer.of_json(200, {"login": "x"})

    shop.send("GET", "/user")
    monkeypatch.setitem(rest.ENDPOINTS, ("GET", "/user"), lazy)
    shop.send("GET", "/user")
    assert any("/user 200" in one for one in violations(shop))


def test_null_is_allowed_where_the_description_says_nullable() -> None:
    described = "/repos/{owner}/{repo}/pulls/{pull_number}/reviews"
    review = {"id": 1}
    assert list(openapi.check_answer("GET", described, 200, [])) == []
    assert list(openapi.check_answer("GET", described, 200, [review]))


def test_lists_are_paged_with_link_headers(shop: Shop) -> None:
    shop.open()
    for number in range(5):
        shop.send("POST", f"/repos/{NAME}/issues/1/comments", {"body": f"{number}"})
    where = f"/repos/{NAME}/issues/1/comments"
    _, page, headers = shop.send("GET", f"{where}?per_page=2&page=2")
    assert [one["body"] for one in page] == ["2", "3"]
    assert 'per_page=2&page=3>; rel="next"' in headers["Link"]
    assert 'page=1>; rel="prev"' in headers["Link"]
    assert "Link" not in shop.send("GET", where)[2]
    everything = shop.gh("api", f"{where}?per_page=2", "--paginate", "--jq", ".[].body")
    assert everything.split() == ["0", "1", "2", "3", "4"]


def test_a_body_is_sent_in_chunks_by_gh(shop: Shop) -> None:
    shop.open()
    text = "x" * 60_000
    shop.gh("api", f"repos/{NAME}/issues/1/comments", "--input", "-", stdin=f'{{"body":"{text}"}}')
    assert shop.github.pull(NAME, 1).comments[0].body == text
    told = shop.gh("api", f"repos/{NAME}/issues/1/comments", "-f", f"body={text}{text}", code=1)
    assert "HTTP 422" in told


def test_the_diff_is_told_to_whom_accepts_it(shop: Shop) -> None:
    shop.open()
    diff = shop.gh("api", f"repos/{NAME}/pulls/1", "-H", "Accept: application/vnd.github.diff")
    assert diff.startswith("diff --git a/feature.txt b/feature.txt")
    assert shop.send("GET", PULL)[1]["changed_files"] == 1


def test_pull_requests_are_opened_changed_and_read(shop: Shop) -> None:
    head = shop.push("feature")
    where = f"/repos/{NAME}/pulls"
    status, made, _ = shop.send("POST", where, {"title": "T", "head": "feature", "base": "main", "draft": True})
    assert (status, made["head"]["sha"], made["draft"]) == (201, head, True)
    assert shop.send("PATCH", f"{where}/1", {"state": "closed"})[1]["state"] == "closed"
    assert shop.send("GET", where)[1] == []
    assert shop.send("PATCH", f"{where}/1", {"state": "open", "title": "U"})[1]["title"] == "U"
    assert [one["filename"] for one in shop.send("GET", f"{where}/1/files")[1]] == ["work.txt"]
    assert [one["sha"] for one in shop.send("GET", f"{where}/1/commits")[1]] == [head]
    assert shop.send("GET", f"{where}/9")[0] == 404


def test_checks_statuses_and_runs_of_a_commit_are_told(shop: Shop) -> None:
    head = shop.push("feature")
    check = shop.github.put_check(NAME, head, "unit", "SUCCESS", log="all is well\n")
    shop.github.put_status(NAME, head, "cla", "PENDING")
    runs = shop.send("GET", f"/repos/{NAME}/commits/feature/check-runs")[1]
    assert [(one["name"], one["conclusion"]) for one in runs["check_runs"]] == [("unit", "success")]
    status = shop.send("GET", f"/repos/{NAME}/commits/{head}/status")[1]
    assert (status["state"], status["statuses"][0]["context"]) == ("pending", "cla")
    assert shop.send("GET", f"/repos/{NAME}/commits/{head}/statuses")[1][0]["creator"]["login"] == "octo"
    (run,) = shop.send("GET", f"/repos/{NAME}/actions/runs?head_sha={head}")[1]["workflow_runs"]
    (job,) = shop.send("GET", f"/repos/{NAME}/actions/runs/{run['id']}/jobs")[1]["jobs"]
    assert (job["id"], run["conclusion"]) == (check.id, "success")
    assert "all is well" in shop.gh("api", f"repos/{NAME}/actions/jobs/{job['id']}/logs")


def test_comments_are_changed_and_removed_by_their_authors(shop: Shop) -> None:
    shop.open()
    made = shop.send("POST", f"/repos/{NAME}/issues/1/comments", {"body": "a"})[1]
    where = f"/repos/{NAME}/issues/comments/{made['id']}"
    assert shop.send("PATCH", where, {"body": "b"}, "worker-1")[0] == 403
    assert shop.send("PATCH", where, {"body": "b"})[1]["body"] == "b"
    shop.gh("pr", "comment", "1", "--edit-last", "--body", "c", login="conductor")
    assert shop.send("GET", where)[1]["body"] == "c"
    assert shop.send("DELETE", where)[0] == 204
    assert shop.send("GET", where)[0] == 404


def test_a_branch_is_read_and_removed(shop: Shop) -> None:
    head = shop.push("feature/one")
    assert shop.send("GET", f"/repos/{NAME}/git/ref/heads/feature/one")[1]["object"]["sha"] == head
    assert shop.send("GET", f"/repos/{NAME}/commits/feature/one")[1]["sha"] == head
    assert shop.send("DELETE", f"/repos/{NAME}/git/refs/heads/feature/one")[0] == 204
    assert shop.send("GET", f"/repos/{NAME}/git/ref/heads/feature/one")[0] == 404
    shop.open("other")
    shop.gh("pr", "close", "1", "--delete-branch")
    assert shop.send("GET", f"/repos/{NAME}/git/ref/heads/other")[0] == 404


def test_requests_are_recorded_with_who_asked_what_and_its_points(shop: Shop) -> None:
    shop.open()
    shop.github.server.requests.clear()
    shop.gh("pr", "view", "1", "--json", "number", login="conductor")
    shop.gh("api", "user")
    seen = [(one.method, one.path, one.operation, one.login, one.points) for one in shop.github.server.requests]
    assert seen == [
        ("POST", "/graphql", "PullRequestByNumber", "conductor", 1),
        ("GET", "/user", "", "worker-1", 1),
    ]
