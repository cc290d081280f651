"""Sessions, windows and panes on real tmux: found again, never doubled, exact, whatever the user's settings
are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conductor.panes.layout import layout_string
from conductor.panes.listing import BORDER, TAG
from conductor.panes.tmux import TmuxPanes, session_name
from conductor.ports import PaneSpec
from schemas.errors import BadInput, NotSo, Unavailable
from tests.panes.conftest import Bench, StandInAgent
from tests.support.tmux_server import tmux as run_tmux
from tests.support.waiting import wait_until


def plain(index: int, folder: Path, *argv: str, **env: str) -> PaneSpec:
    argv = argv or ("sleep", "1000")
    return PaneSpec(index, "conductor" if index == 0 else "worker", f"p {index}", folder, argv, env)


def geometry(bench: Bench) -> dict[str, tuple[int, ...]]:
    text = bench.tmux("list-panes", "-a", "-F", "#{pane_id} #{pane_top} #{pane_left} #{pane_width} #{window_width}")
    return {line.split()[0]: tuple(map(int, line.split()[1:])) for line in text.splitlines()}


def test_the_conductor_is_below_at_full_width_and_workers_above(bench: Bench, tmp_path: Path) -> None:
    ids = bench.up(*[plain(n, tmp_path) for n in range(5)])
    at = geometry(bench)
    assert all(at[ids[0]][0] > at[ids[n]][0] for n in range(1, 5))
    assert at[ids[0]][2] == at[ids[0]][3]
    assert len({at[ids[n]][:2] for n in range(1, 5)}) == 4
    assert at[ids[1]][0] == at[ids[2]][0] < at[ids[3]][0] == at[ids[4]][0]


def test_more_workers_than_a_window_holds_get_further_windows(bench: Bench, tmp_path: Path) -> None:
    ids = bench.up(*[plain(n, tmp_path) for n in range(11)])
    windows = [info.window_id for info in bench.panes.all().values()]
    assert sorted(windows.count(window) for window in set(windows)) == [2, 4, 5]
    assert len(set(ids.values())) == 11
    assert bench.panes.all()[ids[0]].window_id == bench.panes.all()[ids[4]].window_id


def test_a_hundred_panes_work(bench: Bench, tmp_path: Path) -> None:
    began = time.monotonic()
    ids = bench.up(*[plain(n, tmp_path) for n in range(101)])
    assert len(set(ids.values())) == 101
    assert not any(info.dead for info in bench.panes.all().values())
    assert time.monotonic() - began < 60


def test_panes_that_live_are_kept_and_missing_ones_are_added(bench: Bench, tmp_path: Path) -> None:
    first = bench.panes.ensure_session([plain(0, tmp_path), plain(1, tmp_path)])
    again = bench.panes.ensure_session([plain(0, tmp_path), plain(1, tmp_path), plain(2, tmp_path)])
    assert [made for _, made in first.values()] == [True, True]
    assert again[0] == (first[0][0], False)
    assert again[1] == (first[1][0], False)
    assert again[2][1]
    assert len(bench.panes.all()) == 3


def test_a_new_conductor_finds_the_panes_again_also_swapped_and_broken_out(
    bench: Bench, make_panes: Callable[..., TmuxPanes], tmp_path: Path
) -> None:
    specs = [plain(n, tmp_path) for n in range(4)]
    ids = bench.up(*specs)
    bench.tmux("swap-pane", "-d", "-s", ids[1], "-t", ids[2])
    bench.tmux("break-pane", "-d", "-s", ids[3])
    bench.panes.close()
    again = make_panes().ensure_session(specs)
    assert again == {n: (ids[n], False) for n in range(4)}
    assert len(bench.panes.all()) == 4


def test_a_pane_whose_program_was_never_started_is_started_in_its_place(bench: Bench, tmp_path: Path) -> None:
    """The conductor died between making the pane and starting its program."""
    bench.up(plain(1, tmp_path))
    orphan = bench.tmux("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", bench.panes.session, "")
    bench.tmux("set-option", "-p", "-t", orphan, TAG, f"{bench.panes.session}:2")
    made = bench.panes.ensure_session([plain(1, tmp_path), plain(2, tmp_path)])
    assert made[2] == (orphan, True)
    assert bench.panes.info(orphan).pid > 0  # type: ignore[union-attr]


def test_a_dead_pane_shows_its_exit_status_and_is_started_again_in_place(bench: Bench, tmp_path: Path) -> None:
    pane_id = bench.up(plain(1, tmp_path, "sh", "-c", "exit 7"))[1]
    info = wait_until(lambda: (i := bench.panes.info(pane_id)) and i.dead and i)
    assert info.exit_status == 7
    assert bench.panes.ensure_session([plain(1, tmp_path)])[1] == (pane_id, True)
    info = bench.panes.info(pane_id)
    assert info is not None
    assert not info.dead


def test_quick_ends_never_have_an_empty_status(bench: Bench, tmp_path: Path) -> None:
    ids = bench.up(*[plain(n, tmp_path, "sh", "-c", f"exit {n}") for n in range(1, 9)])
    for index, pane_id in ids.items():
        wait_until(lambda pane_id=pane_id: bench.panes.info(pane_id).dead)  # type: ignore[misc]
        assert bench.panes.info(pane_id).exit_status == index  # type: ignore[union-attr]


def test_a_death_by_signal_has_a_status_too(bench: Bench, tmp_path: Path) -> None:
    pane_id = bench.up(plain(1, tmp_path, "sh", "-c", "kill -9 $$"))[1]
    wait_until(lambda: bench.panes.info(pane_id).dead)  # type: ignore[union-attr]
    assert bench.panes.info(pane_id).exit_status == 137  # type: ignore[union-attr]


NAMES = [
    "with space",
    "üñí 日本",
    'quo\'te "double"',
    "semi;colon;",
    "#{pane_id} #S ##x #[fg=red] #(touch bad)",
    "-dash",
    "$HOME ~",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_program_runs_in_exactly_this_folder_with_exactly_these_words(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    out = tmp_path / "out.json"
    said = "[os.getcwd(), sys.argv[2:], os.environ['V']]"
    code = f"import json, os, sys; json.dump({said}, open(sys.argv[1], 'w')); input()"
    words = [name, "", "a\nb", "-x", "trailing;", "trailing\\;", "#{pane_id}", "*"]
    bench.up(plain(1, folder, sys.executable, "-S", "-c", code, str(out), *words, V=f"{name};"))
    wait_until(lambda: out.exists() and out.read_text().endswith("]"))
    assert json.loads(out.read_text()) == [str(folder), words, f"{name};"]
    assert not (folder / "bad").exists()


def test_a_program_of_one_word_is_run_without_a_shell_reading_it(bench: Bench, tmp_path: Path) -> None:
    program = tmp_path / "do it; touch pwned"
    program.write_text(f"#!/bin/sh\necho $$ > '{tmp_path}/ran'\nsleep 1000\n")
    program.chmod(0o755)
    pane_id = bench.up(plain(1, tmp_path, str(program)))[1]
    wait_until(lambda: (tmp_path / "ran").exists() and (tmp_path / "ran").read_text().strip())
    assert (tmp_path / "ran").read_text().strip() == str(bench.panes.info(pane_id).pid)  # type: ignore[union-attr]
    assert not (tmp_path / "pwned").exists()


USER_CONFIG = """
set -g base-index 1
setw -g pane-base-index 1
set -g default-command "cat"
set -g default-shell /bin/sh
set -g remain-on-exit off
setw -g automatic-rename on
set -g mouse on
set -g status off
set -g destroy-unattached on
set -g exit-empty on
setw -g synchronize-panes on
set-hook -g after-split-window "select-layout even-horizontal"
set-hook -g after-new-window "display-message hello"
"""


@pytest.mark.parametrize("extra", ["", "setw -g window-size manual\n"])
def test_a_user_s_own_settings_do_not_get_in_the_way(bench: Bench, isolated: Path, tmp_path: Path, extra: str) -> None:
    (isolated / ".tmux.conf").write_text(USER_CONFIG + extra)
    ids = bench.up(*[plain(n, tmp_path) for n in range(7)])
    assert bench.tmux("show-options", "-gv", "base-index") == "1"
    assert len(bench.panes.all()) == 7
    at = geometry(bench)
    assert at[ids[0]][2] == at[ids[0]][3]
    commands = {info.start_command for info in bench.panes.all().values()}
    assert all("sleep" in command for command in commands)
    assert bench.tmux("show-options", "-gwv", "window-size") == ("manual" if extra else "latest")
    assert bench.tmux("show-options", "-gwv", "synchronize-panes") == "on"
    assert bench.tmux("show-options", "-pv", "-t", ids[1], "synchronize-panes") == "off"
    bench.panes.close()
    assert run_tmux(bench.socket, "has-session", "-t", f"={bench.panes.session}").returncode == 0


def test_window_size_manual_set_later_does_not_end_the_user_s_server(bench: Bench, tmp_path: Path) -> None:
    run_tmux(bench.socket, "new-session", "-d", "-s", "mine", "sleep 1000")
    run_tmux(bench.socket, "set-option", "-gw", "window-size", "manual")
    bench.up(*[plain(n, tmp_path) for n in range(7)])
    assert run_tmux(bench.socket, "has-session", "-t", "=mine").returncode == 0


def test_options_of_the_user_s_windows_are_left_alone(bench: Bench, tmp_path: Path) -> None:
    run_tmux(bench.socket, "new-session", "-d", "-s", "mine", "sleep 1000")
    before = [bench.tmux("show-options", *flags) for flags in (("-g",), ("-gw",), ("-s",), ("-w", "-t", "=mine:"))]
    bench.up(plain(0, tmp_path), plain(1, tmp_path))
    after = [bench.tmux("show-options", *flags) for flags in (("-g",), ("-gw",), ("-s",), ("-w", "-t", "=mine:"))]
    assert before == after


def test_a_session_with_a_longer_name_is_another_one(
    bench: Bench, make_panes: Callable[..., TmuxPanes], tmp_path: Path
) -> None:
    longer = make_panes("taskmaestro-demo-12")
    other = longer.ensure_session([plain(1, tmp_path)])[1][0]
    mine = bench.up(plain(1, tmp_path))[1]
    assert bench.panes.all()[mine].session == "taskmaestro-demo-1"
    bench.panes.end(mine, None)
    assert set(longer.all()) == {other}
    with pytest.raises(NotSo):
        bench.panes.screen(mine)


def test_a_pane_that_does_not_exist_is_never_mistaken_for_another(bench: Bench, tmp_path: Path) -> None:
    bench.up(plain(1, tmp_path))
    assert bench.panes.info("%999") is None
    with pytest.raises(NotSo, match="%999"):
        bench.panes.screen("%999")
    with pytest.raises(BadInput):
        bench.panes.info("taskmaestro:0.0")


def test_without_a_server_there_are_no_panes(bench: Bench) -> None:
    assert bench.panes.all() == {}
    assert bench.panes.info("%0") is None


def test_a_missing_program_is_told_at_once_and_nothing_is_made(bench: Bench, tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable, match="no-such-agent") as caught:
        bench.up(plain(0, tmp_path), plain(1, tmp_path, "no-such-agent", "x", PATH="/opt/none:/usr/nowhere"))
    assert time.monotonic() - began < 1.0
    assert "/opt/none\n" in str(caught.value)
    assert "/usr/nowhere" in str(caught.value)
    assert bench.panes.all() == {}


def test_a_missing_folder_is_told_and_nothing_is_made(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no folder"):
        bench.up(plain(1, tmp_path / "nowhere"))
    assert bench.panes.all() == {}


def test_start_replaces_the_program_and_ends_the_old_one_s_processes(bench: Bench, tmp_path: Path) -> None:
    pane_id = bench.up(bench.spec(1, ignores_hangup=True))[1]
    old = wait_until(lambda: bench.log(1, "start"))[0]["pid"]
    info = bench.panes.start(pane_id, plain(1, tmp_path, "sleep", "500"))
    assert not info.dead
    assert "sleep" in info.start_command
    with pytest.raises(ProcessLookupError):
        os.kill(old, 0)


def test_the_screen_is_joined_and_carries_no_control_characters(bench: Bench, tmp_path: Path) -> None:
    code = r"print('\x1b]2;a \x1b[31m title\x07' + 'x' * 500); print('a\u202eb \x9b31m \x1b[1mbold'); input()"
    pane_id = bench.up(plain(1, tmp_path, sys.executable, "-S", "-c", code))[1]
    wait_until(lambda: "bold" in "".join(bench.panes.screen(pane_id).lines))
    screen = bench.panes.screen(pane_id)
    assert any("x" * 500 in line for line in screen.lines)
    text = "".join(screen.lines) + screen.title
    assert all(char.isprintable() for char in text)
    assert "\u202e" not in text


def test_a_screen_that_imitates_the_protocol_fools_nobody(bench: Bench, tmp_path: Path) -> None:
    code = (
        "import time\n"
        "now = int(time.time())\n"
        "for n in range(400): print(f'%end {now + n % 4} {n} 1\\n%begin {now} {n} 1\\n%error {now} {n} 1')\n"
        "print('ready'); input()"
    )
    pane_id = bench.up(plain(1, tmp_path, sys.executable, "-S", "-c", code))[1]
    wait_until(lambda: "ready" in bench.panes.screen(pane_id, history=2000).lines)
    assert bench.panes.info(pane_id).pane_id == pane_id  # type: ignore[union-attr]
    assert len(bench.panes.screen(pane_id, history=2000).lines) >= 1200


def test_scrollback_is_read_when_it_is_asked_for(bench: Bench, tmp_path: Path) -> None:
    code = "[print('line', n) for n in range(300)]; input()"
    pane_id = bench.up(plain(1, tmp_path, sys.executable, "-S", "-c", code))[1]
    wait_until(lambda: "line 299" in bench.panes.screen(pane_id).lines)
    assert "line 1" not in bench.panes.screen(pane_id).lines
    assert "line 1" in bench.panes.screen(pane_id, history=1000).lines


def test_windows_to_which_the_user_added_panes_are_not_laid_out_anew(bench: Bench, tmp_path: Path) -> None:
    ids = bench.up(plain(0, tmp_path), plain(1, tmp_path))
    bench.tmux("split-window", "-d", "-h", "-t", ids[1], "sleep 1000")
    bench.up(plain(0, tmp_path), plain(1, tmp_path), plain(2, tmp_path))
    assert len(bench.panes.all()) == 4


def test_session_names_hold_only_what_tmux_keeps_and_differ_by_path(tmp_path: Path) -> None:
    one, two = session_name(tmp_path / "a" / "my.repo: x"), session_name(tmp_path / "b" / "my.repo: x")
    assert one.startswith("taskmaestro-my-repo-x-")
    assert one != two
    assert session_name(tmp_path / "日本").startswith("taskmaestro-repo-")
    with pytest.raises(BadInput):
        TmuxPanes("a.b:c")


def test_the_conductor_keeps_eight_rows_in_a_small_terminal(bench: Bench, tmp_path: Path) -> None:
    ids = bench.up(*[plain(n, tmp_path) for n in range(5)])

    def rows() -> int:
        return int(bench.tmux("display-message", "-p", "-t", ids[0], "#{pane_height}"))

    for columns, lines, least, most in ((80, 24, 8, 8), (200, 60, 14, 15), (80, 15, 4, 5), (80, 24, 8, 8)):
        bench.tmux("resize-window", "-t", ids[0], "-x", str(columns), "-y", str(lines))
        wait_until(lambda: least <= rows() <= most, what=f"{least} to {most} rows of {lines}")  # noqa: B023


def test_a_border_names_the_index_once(bench: Bench, tmp_path: Path) -> None:
    spec = replace(plain(1, tmp_path), title="1 mine")
    ids = bench.up(spec, replace(plain(2, tmp_path), title="other"))
    shown = [bench.tmux("show-options", "-pqv", "-t", ids[index], BORDER) for index in (1, 2)]
    assert shown == ["1 mine", "2 other"]


def test_a_layout_that_does_not_fit_is_none() -> None:
    assert layout_string(20, 6, [1, 2, 3, 4], 0) is None
    assert layout_string(200, 50, [], 0) is not None


def test_importing_the_module_does_not_load_libtmux() -> None:
    code = "import sys, conductor.panes.tmux; sys.exit('libtmux' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_variables_that_are_handed_over_reach_later_programs_and_no_command_line(bench: Bench, tmp_path: Path) -> None:
    pane_id = bench.up(plain(1, tmp_path))[1]
    key = "secret's\nsecond line"
    bench.panes.hand_over({"SOME_KEY": key})
    out = tmp_path / "out"
    argv = ("/bin/sh", "-c", 'printf %s "$SOME_KEY" >"$0.new"; mv "$0.new" "$0"; exec cat', str(out))
    bench.panes.start(pane_id, PaneSpec(1, "worker", "one", tmp_path, argv))
    wait_until(out.exists, what="the program's word")
    assert out.read_text() == key
    assert "secret" not in bench.tmux("list-panes", "-a", "-F", "#{pane_start_command}")
    with pytest.raises(BadInput, match="cannot be handed over"):
        bench.panes.hand_over({"NO NAME": "x"})


def test_a_dialog_that_a_hook_tells_of_before_it_is_drawn_is_read_when_it_shows(bench: Bench, tmp_path: Path) -> None:
    pane_id = bench.up(plain(1, tmp_path))[1]
    ask = "printf 'Allow this? (y/n)\\r\\n'; printf '\\033]2;asks\\007'; exec cat"
    argv = ("/bin/sh", "-c", f"printf 'at work\\r\\n'; sleep 0.5; {ask}")
    bench.panes.start(pane_id, PaneSpec(1, "worker", "one", tmp_path, argv))
    wait_until(lambda: any("at work" in line for line in bench.panes.screen(pane_id).lines), what="the program to show")
    at = datetime.now(UTC).isoformat()
    bench.receipts().write_text(json.dumps({"event": "permission", "msg": None, "at": at}) + "\n")
    state = bench.panes.state_of(pane_id, StandInAgent(has_receipts=True))
    assert state.name == "permission"
    assert "Allow this?" in state.detail


def test_a_program_gets_the_path_of_its_spec_also_without_a_control_client(
    make_panes: Callable[..., TmuxPanes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panes = make_panes()
    seen = tmp_path / "path.txt"
    pane_id, _ = panes.ensure_session([PaneSpec(1, "worker", "one", tmp_path, ("sleep", "60"))])[1]
    monkeypatch.setattr(panes.tmux, "connect", lambda **_: None)
    write = ("sh", "-c", f"echo $PATH > {seen}.new; mv {seen}.new {seen}; exec sleep 60")
    panes.start(pane_id, PaneSpec(1, "worker", "one", tmp_path, write, {"PATH": "/nowhere:/usr/bin:/bin"}))
    wait_until(seen.exists, what="the program to run")
    assert seen.read_text() == "/nowhere:/usr/bin:/bin\n"
