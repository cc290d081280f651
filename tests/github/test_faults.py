"""Each fault as the real gh meets it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace

import pytest

from tests.github import faults
from tests.github.faults import Fault
from tests.github.fixtures import GH, NAME, Shop
from tests.github.model import now
from tests.support.waiting import wait_until


def hangs_at(shop: Shop, fault: Fault, *arguments: str) -> None:
    """gh meets this fault, still waits then, and is ended."""
    shop.github.fault(fault)
    before = shop.github.server.waiting
    program = subprocess.Popen([str(GH), *arguments], cwd=shop.root, env=shop.github.environment("worker-1"))
    try:
        wait_until(lambda: shop.github.server.waiting > before, 20, "the request to hang")
        assert (program.poll(), fault.happened) == (None, 1)
    finally:
        program.kill()
        program.wait()


VIEW = ("pr", "view", "1", "--json", "number,headRefOid")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (faults.bad_credentials(), "Bad credentials"),
        (faults.rate_limited(), "API rate limit exceeded"),
        (faults.graphql_rate_limited(), "API rate limit exceeded"),
        (faults.secondary_limit(7), "secondary rate limit"),
        (faults.too_many(3), "HTTP 429"),
        (faults.bad_gateway(), "HTTP 502"),
        (faults.truncated(), "unexpected EOF"),
        (faults.dropped_before(), "EOF"),
        (faults.partial(["repository"], "Something went wrong"), "Something went wrong"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_happens_once_and_then_all_is_well(shop: Shop, fault: Fault, words: str) -> None:
    shop.open()
    shop.github.fault(fault)
    assert words in shop.gh(*VIEW, code=1)
    assert fault.happened == 1
    assert shop.json(*VIEW)["number"] == 1


def test_limits_come_with_their_headers(shop: Shop) -> None:
    shop.github.fault(faults.secondary_limit(7))
    status, _, headers = shop.send("GET", "/user")
    assert (status, headers["Retry-After"]) == (403, "7")
    shop.github.fault(faults.rate_limited(60))
    status, _, headers = shop.send("GET", "/user")
    assert (status, headers["X-RateLimit-Remaining"]) == (403, "0")
    told = shop.gh("api", "--include", "user")
    assert "X-Ratelimit-Remaining: 4999" in told


def test_when_the_points_are_used_up_nothing_is_answered(shop: Shop) -> None:
    shop.github.server.limit = 1
    shop.gh("api", "user")
    assert "API rate limit exceeded" in shop.gh("api", "user", code=1)
    assert shop.gh("api", "user", "--jq", ".login", login="conductor") == "conductor"
    assert shop.gh("api", "rate_limit", "--jq", ".rate.remaining") == "0"


def test_an_unknown_token_is_refused(shop: Shop) -> None:
    environment = shop.github.environment("conductor")
    shop.github.user("conductor").token = "another"  # noqa: S105 (no secret)
    done = subprocess.run(
        [str(GH), "api", "user"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "Bad credentials" in done.stderr) == (1, True)


def test_a_hang_lasts_until_the_asker_gives_up(shop: Shop) -> None:
    hangs_at(shop, faults.hang(path="/user"), "api", "user")
    shop.gh("api", "user")


def test_the_request_arrives_and_its_answer_does_not(shop: Shop) -> None:
    shop.open()
    shop.github.fault(faults.dropped_after(operation="addComment"))
    assert "EOF" in shop.gh("pr", "comment", "1", "--body", "once", code=1)
    assert [one.body for one in shop.github.pull(NAME, 1).comments] == ["once"]


def test_it_was_done_although_the_answer_says_otherwise(shop: Shop) -> None:
    shop.open()
    shop.github.fault(faults.bad_gateway(operation="addComment", after=True))
    assert "502 Bad Gateway" in shop.gh("pr", "comment", "1", "--body", "once", code=1)
    hangs_at(shop, faults.hang(operation="addComment", after=True), "pr", "comment", "1", "--body", "twice")
    assert [one.body for one in shop.github.pull(NAME, 1).comments] == ["once", "twice"]


def test_a_slow_answer_is_a_right_one(shop: Shop) -> None:
    shop.github.fault(faults.slow(0.3, path="/user"))
    begun = time.monotonic()
    assert shop.gh("api", "user", "--jq", ".login") == "worker-1"
    assert time.monotonic() - begun > 0.3


def test_it_is_matched_by_operation_login_method_and_path_and_counted(shop: Shop) -> None:
    shop.open()
    shop.github.fault(faults.bad_gateway(operation="addComment", login="conductor", skip=1))
    shop.gh("pr", "comment", "1", "--body", "a")
    shop.gh("pr", "comment", "1", "--body", "b", login="conductor")
    shop.gh("pr", "comment", "1", "--body", "c", login="conductor", code=1)
    shop.github.fault(faults.bad_gateway(method="GET", path="/repos/.*/pulls/1", count=2))
    assert [shop.send("GET", f"/repos/{NAME}/pulls/1")[0] for _ in range(3)] == [502, 502, 200]
    assert [one.body for one in shop.github.pull(NAME, 1).comments] == ["a", "b"]


def test_a_page_that_is_announced_is_missing(shop: Shop) -> None:
    shop.open()
    for number in range(5):
        shop.send("POST", f"/repos/{NAME}/issues/1/comments", {"body": f"{number}"})
    shop.github.set_page_cap(2)
    fault = shop.github.fault(faults.next_page_fails())
    assert "502 Bad Gateway" in shop.gh("pr", "view", "1", "--json", "comments", code=1)
    assert "HTTP 502" in shop.gh("api", f"repos/{NAME}/issues/1/comments", "--paginate", code=1)
    assert fault.happened == 2


def test_a_part_of_an_answer_is_null_with_an_error_beside_it(shop: Shop) -> None:
    shop.open()
    shop.open("second")
    shop.github.fault(faults.partial(["repository", "b"], "timeout"))
    told = shop.ask(
        'query{repository(owner:"octo",name:"shop"){a:pullRequest(number:1){number} b:pullRequest(number:2){number}}}'
    )
    assert told["data"]["repository"] == {"a": {"number": 1}, "b": None}
    assert told["errors"] == [{"message": "timeout", "path": ["repository", "b"]}]


def test_the_old_head_is_shown_for_a_while_after_a_push(shop: Shop) -> None:
    shop.open()
    pull = shop.github.pull(NAME, 1)
    first = pull.head
    shop.github.set_head_lag(600)
    second = shop.push("feature", "more.txt")
    assert shop.json(*VIEW)["headRefOid"] == first
    assert shop.send("GET", f"/repos/{NAME}/pulls/1")[1]["head"]["sha"] == first
    pull.pushes[-1] = replace(pull.pushes[-1], visible_at=now())  # those 600 seconds have passed
    assert shop.json(*VIEW)["headRefOid"] == second


def test_checks_appear_late(shop: Shop) -> None:
    shop.github.repository(NAME).checks = {"unit": ("true",)}
    shop.github.set_check_delay(600)
    shop.open()
    asked = ("pr", "view", "1", "--json", "statusCheckRollup")
    assert shop.json(*asked) == {"statusCheckRollup": []}
    shop.github.repository(NAME).suites[0].runs[0].visible_at = now()
    assert [one["name"] for one in shop.json(*asked)["statusCheckRollup"]] == ["unit"]
