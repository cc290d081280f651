"""The tmux server that a session lives on is found from every terminal, and another server's panes are left alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conductor.panes.tmux import TmuxPanes
from conductor.panes.whereabouts import remember, remembered, socket_of, usual
from conductor.ports import PaneSpec, Prompt
from schemas.errors import NotSo
from tests.panes.conftest import StandInAgent
from tests.support.tmux_server import private_server, tmux


@pytest.fixture
def other_server() -> Iterator[Path]:
    """Somebody else's server; its first pane has the same number as ours."""
    with private_server() as socket:
        tmux(socket, "new-session", "-d", "-s", "mine", "cat")
        yield socket


def spec(folder: Path) -> PaneSpec:
    return PaneSpec(1, "worker", "one", folder, ("sleep", "1000"))


def test_the_usual_socket_is_that_of_the_terminal_else_the_default_one() -> None:
    assert usual({"TMUX": "/tmp/a,b/s,123,0"}) == Path("/tmp/a,b/s")
    assert usual({"TMUX_TMPDIR": "/run/x"}) == Path(f"/run/x/tmux-{os.geteuid()}/default")
    assert usual({}) == Path(f"/tmp/tmux-{os.geteuid()}/default")


def test_a_live_session_is_found_from_another_terminal(
    make_panes: Callable[..., TmuxPanes], private_tmux: Path, other_server: Path, tmp_path: Path
) -> None:
    panes = make_panes("taskmaestro-demo-1")
    panes.ensure_session([spec(tmp_path)])
    file = tmp_path / "state" / "tmux-socket"
    remember(file, panes.socket_path())
    assert remembered(file) == private_tmux
    elsewhere = {"TMUX": f"{other_server},1,0"}
    assert socket_of(file, "taskmaestro-demo-1", elsewhere) == private_tmux
    assert socket_of(file, "taskmaestro-demo-1", {"TMUX": f"{private_tmux},1,0"}) is None
    tmux(private_tmux, "kill-session", "-t", "=taskmaestro-demo-1")
    assert socket_of(file, "taskmaestro-demo-1", elsewhere) is None


@pytest.mark.parametrize("text", [None, "", "relative\n", "/no/such/socket\n"])
def test_what_is_not_there_is_not_remembered(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "tmux-socket"
    if text is not None:
        file.write_text(text)
    assert socket_of(file, "taskmaestro-demo-1", {}) is None


def test_a_pane_of_somebody_else_is_never_replaced_typed_into_or_ended(
    make_panes: Callable[..., TmuxPanes], private_tmux: Path, tmp_path: Path
) -> None:
    tmux(private_tmux, "new-session", "-d", "-s", "mine", "cat")
    (theirs,) = tmux(private_tmux, "list-panes", "-a", "-F", "#{pane_id}").stdout.split()
    panes = make_panes("taskmaestro-demo-1")
    ours = panes.ensure_session([spec(tmp_path)])[1][0]
    assert ours != theirs
    agent = StandInAgent()
    with pytest.raises(NotSo, match="is not pane 1"):
        panes.start(theirs, spec(tmp_path))
    assert panes.info(theirs) is None
    assert panes.state_of(theirs, agent).name == "gone"
    assert panes.deliver(theirs, Prompt("1", "rm -r"), agent, known_idle=True).outcome == "queued"
    assert panes.find_delivery(theirs, Prompt("1", "rm -r"), agent) is None
    panes.end(theirs, agent)
    shown = tmux(private_tmux, "list-panes", "-s", "-t", "=mine", "-F", "#{pane_id} #{pane_current_command}").stdout
    assert shown == f"{theirs} cat\n"
    assert tmux(private_tmux, "capture-pane", "-p", "-t", theirs).stdout.strip() == ""
