"""The helpers of the tests do what they promise: isolation, waiting, private tmux, repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import reap_default_servers
from tests.support import tmux_server
from tests.support.repos import clone, commit_file, git, make_remote, make_repository
from tests.support.tmux_server import private_server, tmux
from tests.support.waiting import wait_until


def test_home_and_git_identity_are_the_tests_own(isolated: Path) -> None:
    assert Path.home() == isolated
    assert git(isolated, "config", "user.email") == "tester@example.invalid"
    assert git(isolated, "config", "init.defaultBranch") == "main"
    origins = git(isolated, "config", "--list", "--show-origin").splitlines()
    assert {line.split("\t")[0] for line in origins} == {f"file:{isolated}/.config/git/config"}


def test_no_tmux_or_foreign_git_variable_comes_in() -> None:
    assert "TMUX" not in os.environ
    assert "TMUX_PANE" not in os.environ
    assert {name for name in os.environ if name.startswith("GIT_")} == {
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_TERMINAL_PROMPT",
    }


def test_waiting_returns_the_answer_once_it_is_true() -> None:
    answers = iter([0, "", "here"])
    assert wait_until(lambda: next(answers), timeout=5) == "here"


def test_waiting_says_what_it_waited_for_and_saw() -> None:
    with pytest.raises(AssertionError, match=r"waited 0\.03 s for the moon; the last answer was 0"):
        wait_until(lambda: 0, timeout=0.03, what="the moon")


def test_waiting_asks_once_more_after_the_deadline() -> None:
    assert wait_until(lambda: True, timeout=0) is True


def test_a_private_server_is_gone_afterwards() -> None:
    with private_server() as socket:
        assert tmux(socket, "new-session", "-d", "sleep 600").returncode == 0
        processes = tmux_server.processes_of(socket)
        assert len(processes) == 2
    assert not socket.parent.exists()
    assert not [process for process in processes if tmux_server.is_alive(process)]


def test_a_child_that_outlives_the_server_is_named_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmux_server, "GRACE_SECONDS", 0.3)
    script = "trap '' HUP TERM; echo ready; while :; do sleep 0.1; done"
    server = private_server()
    socket = server.__enter__()
    tmux(socket, "new-session", "-d", "sh", "-c", script)
    wait_until(lambda: "ready" in tmux(socket, "capture-pane", "-p").stdout, what="the trap to be set")
    processes = tmux_server.processes_of(socket)
    with pytest.raises(AssertionError, match=r"(?s)outlived their tmux server.*trap"):
        server.__exit__(None, None, None)
    assert not [process for process in processes if tmux_server.is_alive(process)]


def test_a_server_on_the_default_socket_is_found_and_stopped() -> None:
    folder = Path(os.environ["TMUX_TMPDIR"])
    assert reap_default_servers(folder) == []
    subprocess.run(["tmux", "-f", "/dev/null", "new-session", "-d", "sleep 600"], check=True)
    assert len(reap_default_servers(folder)) == 1
    assert reap_default_servers(folder) == []


def test_a_repository_its_remote_and_a_clone_agree(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "with space", commits=3)
    remote = make_remote(repository, tmp_path / "remote.git")
    copy = clone(remote, tmp_path / "copies" / "one")
    assert git(copy, "log", "--format=%s").splitlines() == ["Commit 3", "Commit 2", "Commit 1"]
    sha = commit_file(copy, "folder/new.txt", "new\n")
    git(copy, "push", "--quiet")
    assert git(remote, "rev-parse", "main") == sha


def test_git_failures_carry_gits_own_words(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="not a git repository"):
        git(tmp_path, "status")
