"""The control client: quoting, replies, faults, reconnection."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.panes.control import ConnectionLost, TmuxRefused, quote
from conductor.panes.server import NoServer, Tmux, unformatted
from schemas.errors import BadInput, Unavailable
from tests.support.tmux_server import is_alive, private_server
from tests.support.tmux_server import tmux as run_tmux
from tests.support.tree import ROOT
from tests.support.waiting import wait_until

# Everything but what a line of the protocol cannot hold; tmux itself turns control characters into escapes on
# show.
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60)
NASTY = st.lists(
    st.sampled_from(["'", '"', ";", "#{pane_id}", "~", "$HOME", "\\", "{", "}", " ", "-", "%", "é", "日", "#"])
)
TEXTS = st.one_of(WORDS, NASTY.map("".join))


@pytest.fixture(scope="module")
def server() -> Iterator[Tmux]:
    with private_server() as socket:
        tmux = Tmux("demo", socket)
        tmux.once(("new-session", "-d", "-s", "demo", "--", "sleep", "1000"))
        assert tmux.connect(now=True)
        yield tmux
        tmux.close()


@pytest.fixture
def own(private_tmux: Path) -> Iterator[Tmux]:
    tmux = Tmux("demo", private_tmux, timeout=1.0)
    tmux.once(("new-session", "-d", "-s", "demo", "--", "sleep", "1000"))
    assert tmux.connect(now=True)
    yield tmux
    tmux.close()


@given(TEXTS)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_comes_back_from_tmux_as_it_was_sent(server: Tmux, text: str) -> None:
    assert server.connected
    server.run("set-option", "-s", "@text", text)
    assert server.run("show-options", "-sv", "@text") == ([text] if text else [""])


@given(TEXTS.filter(bool))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_comes_back_the_same_by_a_process(server: Tmux, text: str) -> None:
    server.once(("set-option", "-s", "@text", text))
    assert server.once(("show-options", "-sv", "@text")) == [text]


@given(TEXTS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_format_expansion_gives_back_text_that_was_made_safe_for_it(server: Tmux, text: str) -> None:
    server.run("set-option", "-s", "-F", "@text", unformatted(text))
    assert server.run("show-options", "-sv", "@text") == [text]


def test_a_long_text_passes_whole(server: Tmux) -> None:
    text = "word; " * 30_000
    server.run("set-buffer", "-b", "long", "--", text)
    assert server.run("show-buffer", "-b", "long") == [text]


def test_line_feeds_pass_over_the_protocol_of_lines(server: Tmux) -> None:
    text = 'one\'\n\ntwo \\n "three"\n'
    server.run("set-buffer", "-b", "lines", "--", text)
    assert "\n".join(server.once(("show-buffer", "-b", "lines"))) == text.removesuffix("\n")


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_a_line_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        quote(text)


def test_a_refusal_carries_tmux_s_words_and_the_next_command_is_answered(server: Tmux) -> None:
    with pytest.raises(TmuxRefused, match="can't find pane: %77"):
        server.run("list-panes", "-t", "%77")
    with pytest.raises(TmuxRefused, match="unknown command: no-such-thing"):
        server.run("no-such-thing")
    assert server.run("display-message", "-p", "here") == ["here"]


def test_commands_in_one_go_are_answered_each_and_the_first_failure_is_told(server: Tmux) -> None:
    assert server.run_many(("display-message", "-p", "a"), ("display-message", "-p", "b")) == [["a"], ["b"]]
    with pytest.raises(TmuxRefused, match="%88"):
        server.run_many(("kill-pane", "-t", "%88"), ("set-option", "-s", "@after", "ran"))
    assert server.run("show-options", "-sv", "@after") == ["ran"]


def test_many_threads_get_their_own_answers(server: Tmux) -> None:
    wrong: list[str] = []

    def ask(name: int) -> None:
        for number in range(50):
            word = f"{name}-{number}"
            if server.run("display-message", "-p", word) != [word]:
                wrong.append(word)

    threads = [threading.Thread(target=ask, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_client_leaves_the_window_s_size_alone(own: Tmux) -> None:
    before = own.run("display-message", "-p", "-t", "=demo:", "#{window_width}x#{window_height}")
    own.run("refresh-client")
    assert own.run("display-message", "-p", "-t", "=demo:", "#{window_width}x#{window_height}") == before
    assert "ignore-size" in own.run("list-clients", "-F", "#{client_flags}")[0]


def test_output_is_told_of_with_its_pane(private_tmux: Path) -> None:
    tmux = Tmux("demo", private_tmux)
    heard: list[str] = []
    tmux.on_output = heard.append
    tmux.once(("new-session", "-d", "-s", "demo", "--", "cat", "-"))
    tmux.connect(now=True)
    pane_id = tmux.run("list-panes", "-a", "-F", "#{pane_id}")[0]
    tmux.run("send-keys", "-t", pane_id, "x")
    wait_until(lambda: pane_id in heard)
    tmux.close()


def test_without_a_session_a_process_answers_and_no_server_is_told(private_tmux: Path) -> None:
    tmux = Tmux("demo", private_tmux)
    with pytest.raises(NoServer, match="no tmux server runs"):
        tmux.run("list-sessions")
    run_tmux(private_tmux, "new-session", "-d", "-s", "other", "sleep 1000")
    assert tmux.run("list-sessions", "-F", "#{session_name}") == ["other"]
    assert not tmux.connected


def test_a_session_whose_name_only_begins_so_is_not_taken(private_tmux: Path) -> None:
    run_tmux(private_tmux, "new-session", "-d", "-s", "demo-two", "sleep 1000")
    assert Tmux("demo", private_tmux).connect(now=True) is None


def test_a_killed_server_is_told_at_once_and_later_calls_say_no_server(own: Tmux) -> None:
    lost: list[str] = []
    own.on_lost = lost.append
    run_tmux(own.socket or Path(), "kill-server")
    wait_until(lambda: lost)
    with pytest.raises(NoServer):
        own.run("list-sessions")


def test_the_client_comes_back_after_it_was_detached(own: Tmux) -> None:
    run_tmux(own.socket or Path(), "detach-client", "-s", "=demo")
    wait_until(lambda: not own.connected)
    assert own.run("display-message", "-p", "still") == ["still"]
    wait_until(lambda: own.connect() is not None)
    assert own.run("display-message", "-p", "here") == ["here"]


def test_a_server_that_hangs_is_a_fault_within_the_time_and_not_a_wait_for_ever(own: Tmux) -> None:
    pid = int(own.run("display-message", "-p", "#{pid}")[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ConnectionLost, match="no answer within 1 s"):
            own.run("display-message", "-p", "x")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert own.read("display-message", "-p", "x") == ["x"]


STALLED = """\
import fcntl, struct, sys, termios, threading
from pathlib import Path
from conductor.panes.server import Tmux
from tests.support.tree import ROOT
from tests.support.waiting import wait_until

tmux = Tmux("demo", Path(sys.argv[1]))
tmux.on_output = lambda pane_id: threading.Event().wait()
client = tmux.connect(now=True)
unread = lambda: struct.unpack("i", fcntl.ioctl(client._outputs, termios.FIONREAD, bytes(4)))[0]
wait_until(lambda: unread() > 30_000, what="output that nobody reads")
print(client._process.pid, flush=True)
threading.Event().wait()
"""
"""A program with a client, which stops reading while a pane writes without end."""


def test_a_client_with_unread_output_leaves_when_its_program_is_killed_and_the_server_can_end(
    private_tmux: Path,
) -> None:
    run_tmux(private_tmux, "new-session", "-d", "-s", "demo", "yes")
    server = psutil.Process(int(run_tmux(private_tmux, "display-message", "-p", "#{pid}").stdout))
    program = subprocess.Popen(
        [sys.executable, "-c", STALLED, str(private_tmux)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with program:
        assert program.stdout is not None
        client = psutil.Process(int(program.stdout.readline()))
        assert is_alive(client)
        program.kill()
    try:
        wait_until(lambda: not is_alive(client), what="the client's end")
        run_tmux(private_tmux, "kill-server")
        wait_until(lambda: not is_alive(server), what="the server's end")
    finally:
        if is_alive(client):
            client.kill()  # or the server could not be ended either


def test_a_client_works_also_where_no_terminal_can_be_had(private_tmux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def openpty() -> tuple[int, int]:
        raise OSError("out of pty devices")

    monkeypatch.setattr(os, "openpty", openpty)
    run_tmux(private_tmux, "new-session", "-d", "-s", "demo", "sleep 1000")
    tmux = Tmux("demo", private_tmux)
    assert tmux.connect(now=True)
    assert tmux.run("display-message", "-p", "here") == ["here"]
    tmux.close()


def test_a_client_that_was_closed_leaves_no_file_open(private_tmux: Path) -> None:
    run_tmux(private_tmux, "new-session", "-d", "-s", "demo", "sleep 1000")
    before = psutil.Process().num_fds()
    tmux = Tmux("demo", private_tmux)
    assert tmux.connect(now=True)
    tmux.close()
    assert Tmux("another", private_tmux).connect(now=True) is None
    assert psutil.Process().num_fds() == before


def test_a_missing_tmux_says_what_to_install(private_tmux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmux = Tmux("demo", private_tmux)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nonexistent")
        tmux = Tmux("demo", private_tmux)
        with pytest.raises(Unavailable, match="tmux was not found"):
            tmux.run("list-sessions")


def test_the_user_s_own_server_is_the_one_that_this_terminal_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/tmp/with, comma/default,123,0")
    assert Tmux("demo").socket == Path("/tmp/with, comma/default")
