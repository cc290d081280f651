"""The GraphQL door: what is not modelled fails, pages are pages, points are counted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.github.fixtures import NAME, Shop
from tests.github.world import GithubWorld

OWNER = 'repository(owner:"octo",name:"shop")'


def complained(github: GithubWorld) -> list[str]:
    """What was recorded as not modelled, which then does not fail the test."""
    found, github.server.unmodelled[:] = list(github.server.unmodelled), []
    return found


def test_a_field_that_is_not_modelled_is_an_error_and_is_recorded(shop: Shop) -> None:
    shop.open()
    told = shop.ask(f"query{{{OWNER}{{pullRequest(number:1){{number bodyHTML}}}}}}")
    assert told["data"]["repository"]["pullRequest"] is None  # bodyHTML may not be null, so nothing is
    assert "does not model PullRequest.bodyHTML" in told["errors"][0]["message"]
    with pytest.raises(AssertionError, match="does not model"):
        shop.github.assert_honest()
    assert complained(shop.github) == ["PullRequest.bodyHTML"]


def test_gh_fails_at_a_field_that_is_not_modelled(shop: Shop) -> None:
    told = shop.gh("api", "graphql", "-f", f"query=query{{{OWNER}{{stargazerCount}}}}", code=1)
    assert "the stand-in does not model Repository.stargazerCount" in told
    assert complained(shop.github) == ["Repository.stargazerCount"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("updatePullRequest", {"state": "CLOSED"}),
        ("addPullRequestReview", {"comments": [{"path": "a", "position": 1, "body": "b"}]}),
        ("mergePullRequest", {"commitHeadline": "c"}),
    ],
)
def test_an_input_that_is_not_modelled_is_an_error(shop: Shop, name: str, given: dict[str, object]) -> None:
    shop.open()
    told = shop.tried(name, {"pullRequestId": shop.github.pull(NAME, 1).node_id, **given}, "clientMutationId")
    assert told["errors"][0]["type"] == "STANDIN_UNMODELLED"
    assert len(complained(shop.github)) == 1
    assert (shop.github.pull(NAME, 1).state, shop.github.pull(NAME, 1).reviews) == ("OPEN", [])


def test_an_argument_that_is_not_modelled_is_an_error(shop: Shop) -> None:
    told = shop.ask(f'query{{{OWNER}{{issues(first:1,filterBy:{{milestone:"1"}}){{totalCount}}}}}}')
    assert told["errors"][0]["type"] == "STANDIN_UNMODELLED"
    assert len(complained(shop.github)) == 1


def test_a_query_that_the_schema_refuses_is_a_violation(shop: Shop) -> None:
    told = shop.ask("query{nothing}")
    assert "data" not in told
    with pytest.raises(AssertionError, match="GitHub describes"):
        shop.github.assert_honest()
    shop.github.server.violations.clear()


# --- pages ---


def test_pages_are_walked_by_cursor_in_both_directions(shop: Shop) -> None:
    shop.open()
    for number in range(5):
        shop.send("POST", f"/repos/{NAME}/issues/1/comments", {"body": f"{number}"})
    fields = "totalCount nodes{body} pageInfo{hasNextPage hasPreviousPage startCursor endCursor}"
    query = f"query($after:String){{{OWNER}{{pullRequest(number:1){{comments(first:2,after:$after){{{fields}}}}}}}}}"

    def read(after: str | None) -> dict[str, Any]:
        page: dict[str, Any] = shop.data(query, after=after)["repository"]["pullRequest"]["comments"]
        return page

    page = read(None)
    found = list(page["nodes"])
    while page["pageInfo"]["hasNextPage"]:
        page = read(page["pageInfo"]["endCursor"])
        found += page["nodes"]
    assert [one["body"] for one in found] == ["0", "1", "2", "3", "4"]
    assert page["totalCount"] == 5
    before = page["pageInfo"]["startCursor"]
    back = shop.pull(1, f'comments(last:2,before:"{before}"){{{fields}}}')["comments"]
    assert [one["body"] for one in back["nodes"]] == ["2", "3"]
    assert back["pageInfo"]["hasPreviousPage"]


def test_a_page_has_a_length_of_100_at_most(shop: Shop) -> None:
    shop.open()
    for arguments, kind in (
        ("(first:101)", "EXCESSIVE_PAGINATION"),
        ("", "MISSING_PAGINATION_BOUNDARIES"),
        ('(first:1,after:"x")', "INVALID_CURSOR_ARGUMENTS"),
    ):
        told = shop.ask(f"query{{{OWNER}{{pullRequest(number:1){{comments{arguments}{{nodes{{id}}}}}}}}}}")
        assert told["errors"][0]["type"] == kind
    assert shop.pull(1, "comments{totalCount}") == {"comments": {"totalCount": 0}}


def test_gh_reads_all_pages_itself(shop: Shop) -> None:
    shop.open()
    for number in range(5):
        shop.send("POST", f"/repos/{NAME}/issues/1/comments", {"body": f"{number}"})
    shop.github.set_page_cap(2)
    seen = shop.json("pr", "view", "1", "--json", "comments")
    assert [one["body"] for one in seen["comments"]] == ["0", "1", "2", "3", "4"]


# --- nodes, errors and points ---


def test_nodes_are_found_by_their_ids(shop: Shop) -> None:
    shop.open()
    pull = shop.github.pull(NAME, 1)
    commit = shop.pull(1, "commits(last:1){nodes{commit{id oid}}}")["commits"]["nodes"][0]["commit"]
    query = "query($ids:[ID!]!){nodes(ids:$ids){__typename id ...on Commit{oid}}}"
    first, second = shop.data(query, ids=[pull.node_id, commit["id"]])["nodes"]
    assert first == {"__typename": "PullRequest", "id": pull.node_id}
    assert second == {"__typename": "Commit", **commit}
    told = shop.ask('query{node(id:"X"){id}}')
    assert (told["data"], told["errors"][0]["type"]) == ({"node": None}, "NOT_FOUND")


def test_one_of_several_that_is_missing_is_an_error_beside_the_others(shop: Shop) -> None:
    shop.open()
    told = shop.ask(f"query{{{OWNER}{{a:pullRequest(number:1){{number}} b:pullRequest(number:9){{number}}}}}}")
    assert told["data"]["repository"] == {"a": {"number": 1}, "b": None}
    assert (told["errors"][0]["type"], told["errors"][0]["path"]) == ("NOT_FOUND", ["repository", "b"])


def test_points_follow_the_published_formula(shop: Shop) -> None:
    nested = "pullRequests(first:100){nodes{reviews(first:100){nodes{comments(first:50){nodes{id}}}}}}"
    told = shop.data(f"query{{rateLimit{{cost nodeCount limit used remaining}} {OWNER}{{{nested}}}}}")["rateLimit"]
    # 1 + 100 + 100 * 100 requests; 100 + 100 * 100 + 100 * 100 * 50 nodes.
    assert (told["cost"], told["nodeCount"]) == (101, 510_100)
    assert (told["limit"], told["used"], told["remaining"]) == (5000, 101, 4899)
    told = shop.data("query{rateLimit{cost used}}")["rateLimit"]
    assert told == {"cost": 1, "used": 102}
    headers = shop.send("POST", "/graphql", {"query": "query{viewer{login}}"})[2]
    assert (headers["X-RateLimit-Used"], headers["X-RateLimit-Resource"]) == ("103", "graphql")


def test_the_schema_is_told_as_it_is(shop: Shop) -> None:
    fields = shop.data('query{__type(name:"PullRequest"){fields{name}}}')["__type"]["fields"]
    assert {"headRefOid", "reviewDecision", "assignedActors"} <= {one["name"] for one in fields}


def test_heads_are_told_with_what_was_pushed_by_force(shop: Shop) -> None:
    shop.open()
    first = shop.github.pull(NAME, 1).head
    second = shop.amend("feature", "feature.txt", "other\n")
    third = shop.push("feature", "more.txt")
    kinds = "[PULL_REQUEST_COMMIT, HEAD_REF_FORCE_PUSHED_EVENT]"
    force = "...on HeadRefForcePushedEvent{beforeCommit{oid} afterCommit{oid} createdAt}"
    commit = "...on PullRequestCommit{commit{oid committedDate}}"
    query = f"timelineItems(first:50,itemTypes:{kinds}){{nodes{{{force} {commit}}}}}"
    nodes = shop.pull(1, query)["timelineItems"]["nodes"]
    moves = [(one["beforeCommit"]["oid"], one["afterCommit"]["oid"]) for one in nodes if "afterCommit" in one]
    assert moves == [(first, second)]
    assert [one["commit"]["oid"] for one in nodes if "commit" in one] == [second, third]
    told = shop.ask(
        f"query{{{OWNER}{{pullRequest(number:1){{timelineItems(first:1,itemTypes:[LABELED_EVENT]){{totalCount}}}}}}}}"
    )
    assert told["errors"][0]["type"] == "STANDIN_UNMODELLED"
    complained(shop.github)
