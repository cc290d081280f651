"""Isolation for every test: a home of its own, git without the user's settings, no tmux but private ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tmux_server import private_tmux, reap, short_folder, tmux

__all__ = ["private_tmux"]

GIT_CONFIG = """\
[user]
    name = Tester
    email = tester@example.invalid
[init]
    defaultBranch = main
    # None of git's sample hooks: some ten thousand files in all.
    templateDir =
[commit]
    gpgSign = false
[gc]
    auto = 0
[maintenance]
    auto = false
[advice]
    detachedHead = false
"""

# Whatever starts so was set by the person or the program that started the tests.
FOREIGN_PREFIXES = ("GIT_", "GH_", "GITHUB_", "TASKMAESTRO_", "XDG_", "LC_", "CLAUDE", "ANTHROPIC_")
FOREIGN_NAMES = (
    "TMUX",
    "TMUX_PANE",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
)


def isolate(patch: pytest.MonkeyPatch, home: Path, tmux_folder: Path) -> None:
    """Point the environment at ``home`` and ``tmux_folder``, and take out what comes from outside."""
    for name in list(os.environ):
        if name.startswith(FOREIGN_PREFIXES) or name in FOREIGN_NAMES:
            patch.delenv(name)
    config = home / ".config" / "git" / "config"
    config.parent.mkdir(parents=True)
    config.write_text(GIT_CONFIG, encoding="utf-8")
    runtime = home / ".runtime"
    runtime.mkdir(mode=0o700)
    for name, value in {
        "HOME": home,
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local" / "share",
        "XDG_RUNTIME_DIR": runtime,
        "XDG_STATE_HOME": home / ".local" / "state",
        "GIT_CONFIG_GLOBAL": config,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "TMUX_TMPDIR": tmux_folder,
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TZ": "UTC",
        # Go programs that live for some milliseconds need not look for garbage.
        "GOGC": "400",
    }.items():
        patch.setenv(name, str(value))


def reap_default_servers(tmux_folder: Path) -> list[str]:
    """Stop the servers started without ``-S`` (or with ``-L``); return the sockets that had one."""
    live = []
    for socket in sorted(tmux_folder.glob("tmux-*/*")):
        if tmux(socket, "list-sessions").returncode == 0:
            live.append(str(socket))
            reap(socket)
    return live


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, for where several run beside each other: the short ones then fill the gaps at the end."""
    items.sort(key=lambda item: "e2e" not in item.path.parts)


@pytest.fixture(scope="session", autouse=True)
def isolated_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Isolation for fixtures with a wider scope than one test, which run before the test's own."""
    tmux_folder = short_folder()
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, tmp_path_factory.mktemp("session-home"), tmux_folder)
        yield
        reap_default_servers(tmux_folder)
    shutil.rmtree(tmux_folder)


@pytest.fixture(autouse=True)
def isolated(isolated_session: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A new home for each test, which is the fixture's value. A tmux server left running fails the test."""
    tmux_folder = short_folder()
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, home, tmux_folder)
        yield home
        live = reap_default_servers(tmux_folder)
    shutil.rmtree(tmux_folder)
    if live:
        pytest.fail(f"a tmux server was left running: {', '.join(live)}; use the private_tmux fixture")
