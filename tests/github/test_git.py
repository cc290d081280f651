"""Real git and real checks behind the stand-in; the stand-in without a network and as a program."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.github.fixtures import GH, NAME, Shop
from tests.github.git_ssh import ask
from tests.github.world import ROOT, GithubWorld
from tests.support.repos import commit_file, git, make_repository
from tests.support.waiting import wait_until


def rollup(shop: Shop, number: int = 1) -> dict[str, str]:
    """Check -> its conclusion, or its state while it has none."""
    seen = shop.pull(number, "statusCheckRollup{contexts(first:50){nodes{...on CheckRun{name status conclusion}}}}")
    nodes = (seen["statusCheckRollup"] or {"contexts": {"nodes": []}})["contexts"]["nodes"]
    return {one["name"]: one["conclusion"] or one["status"] for one in nodes}


# --- git ---


def test_a_push_from_a_worktree_is_real(shop: Shop, tmp_path: Path) -> None:
    git(shop.root, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    sha = commit_file(tmp_path / "side", "side.txt", "x\n")
    git(tmp_path / "side", "push", "--quiet", "origin", "side")
    assert git(shop.root, "ls-remote", "origin", "refs/heads/side").split()[0] == sha
    assert git(shop.root, "remote", "get-url", "origin") == "git@github.com:octo/shop.git"


def test_whoever_pushed_by_force_is_told(shop: Shop, tmp_path: Path) -> None:
    shop.open()
    other = shop.github.clone(NAME, tmp_path / "other", login="conductor")
    git(other, "checkout", "--quiet", "feature")
    git(other, "commit", "--quiet", "--amend", "--message", "Other words")
    git(other, "push", "--quiet", "--force", "origin", "feature")
    kind = "HEAD_REF_FORCE_PUSHED_EVENT"
    query = f"timelineItems(last:1,itemTypes:[{kind}]){{nodes{{...on HeadRefForcePushedEvent{{actor{{login}}}}}}}}"
    assert shop.pull(1, query)["timelineItems"]["nodes"] == [{"actor": {"login": "conductor"}}]


def test_the_head_of_a_pull_request_has_a_ref_and_survives_its_branch(shop: Shop) -> None:
    shop.open()
    head = shop.github.pull(NAME, 1).head
    git(shop.root, "push", "--quiet", "origin", ":feature")
    git(shop.root, "fetch", "--quiet", "origin", "refs/pull/1/head")
    assert git(shop.root, "rev-parse", "FETCH_HEAD") == head
    assert shop.pull(1, "headRefOid headRef{name}") == {"headRefOid": head, "headRef": None}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("git@github.com:octo/absent.git", "Repository not found"),
        ("git@elsewhere.invalid:octo/shop.git", "only git@github.com can be reached"),
    ],
)
def test_other_repositories_and_hosts_are_not_reached(shop: Shop, url: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        git(shop.root, "ls-remote", url)


def test_nothing_is_pushed_to_an_archived_repository(shop: Shop) -> None:
    shop.github.repository(NAME).archived = True
    with pytest.raises(AssertionError, match="archived so it is read-only"):
        shop.push("feature")
    git(shop.root, "fetch", "--quiet", "origin")


def test_the_token_is_in_a_private_file_and_in_no_variable(shop: Shop) -> None:
    environment = shop.github.environment("conductor")
    token = shop.github.user("conductor").token
    assert not any(token in value for value in environment.values())
    hosts = Path(environment["GH_CONFIG_DIR"]) / "hosts.yml"
    assert token in hosts.read_text(encoding="utf-8")
    assert stat.S_IMODE(hosts.stat().st_mode) == 0o600


def test_gh_needs_no_network(shop: Shop) -> None:
    alone = ["unshare", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let the test make a network namespace")
    env = shop.github.environment("conductor")
    done = subprocess.run([*alone, str(GH), "api", "user"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["login"]) == (0, "conductor")


def test_an_enterprise_server_answers_under_its_own_name_and_paths(isolated: Path, shop: Shop, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "inner")
    with GithubWorld(tmp_path / "enterprise", host="git.example.com") as inner:
        inner.adopt(root, "team/tool", login="ann")
        env = inner.environment("ann") | {"GH_HOST": "git.example.com"}

        def gh(*arguments: str) -> str:
            done = subprocess.run([str(GH), *arguments], cwd=root, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        assert gh("api", "user", "--jq", ".login") == "ann"
        assert gh("repo", "view", "--json", "url", "--jq", ".url") == "https://git.example.com/team/tool"
        git(root, "push", "--quiet", "origin", "main:copy")
        inner.assert_honest()


# --- checks ---


def test_checks_run_on_the_head_and_their_log_is_served(shop: Shop) -> None:
    command = 'cat feature.txt; test "$(cat verdict.txt 2>/dev/null)" != bad'
    shop.github.repository(NAME).checks = {"unit": ("sh", "-c", command), "lint": ("true",)}
    shop.open()
    wait_until(lambda: rollup(shop) == {"unit": "SUCCESS", "lint": "SUCCESS"}, 20, "the checks to pass")
    shop.push("feature", "verdict.txt", "bad")
    wait_until(lambda: rollup(shop) == {"unit": "FAILURE", "lint": "SUCCESS"}, 20, "the check to fail")
    link = json.loads(shop.gh("pr", "checks", "1", "--json", "name,link"))
    job = next(one["link"] for one in link if one["name"] == "unit").rpartition("/")[2]
    assert "three" in shop.gh("api", f"repos/{NAME}/actions/jobs/{job}/logs")


def test_a_newer_head_cancels_what_runs_for_the_older_one(shop: Shop) -> None:
    shop.github.repository(NAME).checks = {"slow": ("sh", "-c", "test -e quick.txt || sleep 600")}
    shop.open()
    wait_until(lambda: rollup(shop) == {"slow": "IN_PROGRESS"}, 20, "the check to run")
    first = shop.github.pull(NAME, 1).head
    shop.amend("feature", "quick.txt", "x")
    wait_until(lambda: rollup(shop) == {"slow": "SUCCESS"}, 20, "the check to pass")
    runs = shop.send("GET", f"/repos/{NAME}/commits/{first}/check-runs")[1]["check_runs"]
    assert [one["conclusion"] for one in runs] == ["cancelled"]


def test_a_check_that_takes_too_long_is_timed_out(shop: Shop) -> None:
    shop.github.runner.timeout = 0.3
    shop.github.repository(NAME).checks = {"slow": ("sleep", "600")}
    shop.open()
    wait_until(lambda: rollup(shop) == {"slow": "TIMED_OUT"}, 20, "the check to be timed out")


def test_a_superseded_run_stands_beside_the_one_that_counts(shop: Shop) -> None:
    shop.open()
    head = shop.github.pull(NAME, 1).head
    shop.github.put_check(NAME, head, "unit", "CANCELLED")
    shop.github.put_check(NAME, head, "unit", "SUCCESS")
    seen = shop.json("pr", "view", "1", "--json", "statusCheckRollup")["statusCheckRollup"]
    assert [one["conclusion"] for one in seen] == ["CANCELLED", "SUCCESS"]


def test_a_run_that_was_started_again_shows_once(shop: Shop) -> None:
    shop.open()
    head = shop.github.pull(NAME, 1).head
    failed = shop.github.put_check(NAME, head, "unit", "FAILURE")
    shop.github.put_check(NAME, head, "unit", "SUCCESS", again=failed)
    seen = shop.json("pr", "view", "1", "--json", "statusCheckRollup")["statusCheckRollup"]
    assert [one["conclusion"] for one in seen] == ["SUCCESS"]
    everything = shop.send("GET", f"/repos/{NAME}/commits/{head}/check-runs?filter=all")[1]["check_runs"]
    assert [(one["conclusion"], one["pull_requests"][0]["number"]) for one in everything] == [
        ("failure", 1),
        ("success", 1),
    ]


# --- as a program ---


def test_it_runs_as_a_program_with_a_control_door(shop: Shop, tmp_path: Path) -> None:
    root = make_repository(tmp_path / "demo")
    options = ["--repository", f"demo/app={root}", "--login", "ann", "--login", "bob", "--check", "unit=true"]
    command = [sys.executable, "-m", "tests.github", "--folder", str(tmp_path / "standin"), *options]
    program = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        told = json.loads(program.stdout.readline())
        env = told["environments"]["bob"]
        git(root, "push", "--quiet", "origin", "main:side")
        assert ask(told["socket"], "fault", {"kind": "answer", "status": 502, "path": "/user"})[0] == 200
        user = [str(GH), "api", "user"]
        codes = [subprocess.run(user, env=env, capture_output=True, check=False).returncode for _ in range(2)]
        assert codes == [1, 0]
        state = ask(told["socket"], "state", {})[1]
        assert (state["requests"], state["unmodelled"], state["faults"][0]["happened"]) == (2, [], 1)
    finally:
        program.stdin.close()
        assert program.wait(20) == 0
        program.stdout.close()
    assert not Path(told["socket"]).exists()
