"""A program is run to its end, within its time and a bounded memory, and nothing of it stays when it is
ended.
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from schemas.errors import BadInput, Unavailable
from tests.support.waiting import wait_until
from worker.tools.process import MARK, Outcome, run

PY = [sys.executable, "-I", "-S", "-c"]


def python(code: str, cwd: Path, timeout: float = 20.0, **options: object) -> Outcome:
    return run([*PY, code], cwd=cwd, timeout=timeout, **options)  # type: ignore[arg-type]


def gone(path: Path) -> bool:
    pid = int(path.read_text())
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_output_code_and_streams(tmp_path: Path) -> None:
    code = "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(3)"
    merged = python(code, tmp_path)
    assert (merged.returncode, merged.output, merged.errors) == (3, "out\nerr\n", "")
    apart = python(code, tmp_path, merge=False)
    assert (apart.output, apart.errors, apart.ending()) == ("out\n", "err\n", "exit code 3")


def test_output_is_cleaned_and_the_bytes_are_kept(tmp_path: Path) -> None:
    outcome = run(["printf", r"\033[31mred\0\r\nx"], cwd=tmp_path, timeout=5)
    assert outcome.output == "[31mred\nx"
    assert outcome.data == b"\x1b[31mred\0\r\nx"


def test_input_reaches_the_program_and_one_that_does_not_read_is_no_fault(tmp_path: Path) -> None:
    big = b"x" * 3_000_000
    assert python("import sys; print(len(sys.stdin.buffer.read()))", tmp_path, input=big).output == "3000000\n"
    assert python("pass", tmp_path, input=big).ok
    assert python("import sys; print(repr(sys.stdin.read()))", tmp_path).output == "''\n"


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    child = "import time, os; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    code = f"import subprocess, sys; print('begun', flush=True)\nsubprocess.run([sys.executable, '-c', {child!r}])"
    outcome = python(code, tmp_path, timeout=1.0)
    assert outcome.timed_out
    assert outcome.returncode is None
    assert "begun" in outcome.output
    assert outcome.seconds < 6
    assert gone(tmp_path / "pid")


DAEMON = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('pid.new', 'w').write(str(os.getpid()))
        os.rename('pid.new', 'pid')
        time.sleep(600)
    os._exit(0)
os.wait()
"""


def test_a_daemon_that_ignores_sigterm_is_ended_at_a_time_out(tmp_path: Path) -> None:
    code = DAEMON + "while not os.path.exists('pid'): time.sleep(0.01)\ntime.sleep(600)"
    outcome = python(code, tmp_path, timeout=1.0)
    assert outcome.timed_out
    assert gone(tmp_path / "pid")


def test_a_daemon_left_at_a_normal_end_is_ended_and_does_not_hold_us_up(tmp_path: Path) -> None:
    code = DAEMON + "while not os.path.exists('pid'): time.sleep(0.01)\nprint('done', flush=True)"
    outcome = python(code, tmp_path, timeout=30)
    assert (outcome.returncode, outcome.output) == (0, "done\n")
    assert outcome.seconds < 10
    assert gone(tmp_path / "pid")


@pytest.mark.parametrize("code", [0, 3])
def test_background_children_and_daemons_are_ended_when_the_command_has_ended(tmp_path: Path, code: int) -> None:
    wait = "while ! test -s one || ! test -s two; do sleep 0.01; done"
    script = (
        "(setsid sh -c 'echo $$ >one; exec sleep 777' >/dev/null 2>&1 &)\n"
        f"sh -c 'echo $$ >two; exec sleep 776' >/dev/null 2>&1 &\n{wait}\nexit {code}"
    )
    outcome = run(["sh", "-c", script], cwd=tmp_path, timeout=30)
    assert outcome.returncode == code
    assert gone(tmp_path / "one")
    assert gone(tmp_path / "two")


def test_what_may_stay_stays_and_does_not_hold_us_up(tmp_path: Path) -> None:
    code = DAEMON + "while not os.path.exists('pid'): time.sleep(0.01)\nprint('done', flush=True)"
    outcome = run([sys.executable, "-c", code], cwd=tmp_path, timeout=30, leave=True)
    try:
        assert (outcome.returncode, outcome.output) == (0, "done\n")
        assert outcome.seconds < 5
        assert not gone(tmp_path / "pid")
    finally:
        psutil.Process(int((tmp_path / "pid").read_text())).kill()


def test_a_child_with_a_cleared_environment_is_found_by_its_parent(tmp_path: Path) -> None:
    inner = "import os,time; os.setsid(); open('pid','w').write(str(os.getpid())); time.sleep(600)"
    code = f"import subprocess,sys; subprocess.run([sys.executable,'-c',{inner!r}], env={{}})"
    assert python(code, tmp_path, timeout=1.0).timed_out
    assert gone(tmp_path / "pid")


def test_100_megabytes_neither_block_nor_fill_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = (
        "import sys; w=sys.stdout.buffer.write; w(b'first\\n')\n"
        "for _ in range(100): w(b'x'*999999+b'\\n')\n"
        "w(b'last\\n')"
    )
    outcome = python(code, tmp_path, timeout=60)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert outcome.ok
    assert outcome.truncated
    assert outcome.output.startswith("first\n")
    assert outcome.output.endswith("last\n")
    assert "bytes left out" in outcome.output
    assert len(outcome.output) < 1_200_000
    assert grown < 30_000, f"grew by {grown} KiB"


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 25, 1000])
def test_output_within_the_bound_is_whole_and_beyond_it_keeps_both_ends(tmp_path: Path, size: int) -> None:
    text = "".join(chr(97 + number % 26) for number in range(size))
    outcome = run(["printf", "%s", text], cwd=tmp_path, timeout=5, keep=10)
    assert outcome.truncated == (size > 10)
    if size <= 10:
        assert outcome.output == text
    else:
        assert outcome.output == f"{text[:5]}\n... ({size - 10} bytes left out) ...\n{text[-5:]}"


def test_work_that_is_not_wanted_any_more_is_ended(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    outcome = run(["sleep", "600"], cwd=tmp_path, timeout=60, cancelled=stop.is_set)
    assert outcome.cancelled
    assert outcome.returncode is None
    assert outcome.ending() == "cancelled"
    assert outcome.seconds < 5


def test_an_exception_while_waiting_ends_the_program(tmp_path: Path) -> None:
    def interrupted() -> bool:
        if (tmp_path / "pid").exists():
            raise KeyboardInterrupt
        return False

    code = "import os,time; open('p','w').write(str(os.getpid())); os.rename('p','pid'); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        python(code, tmp_path, cancelled=interrupted)
    wait_until(lambda: gone(tmp_path / "pid"), 5)


def test_a_program_that_closes_its_output_is_still_waited_for(tmp_path: Path) -> None:
    outcome = python("import os,time; os.close(1); os.close(2); time.sleep(0.3); os._exit(7)", tmp_path)
    assert outcome.returncode == 7


def test_programs_not_found_say_where_was_looked(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="PATH=/nowhere"):
        run(["no-such-program"], cwd=tmp_path, timeout=5, env={"PATH": "/nowhere"})
    with pytest.raises(Unavailable, match=r"looked at .*/bin/tool"):
        run(["./bin/tool"], cwd=tmp_path, timeout=5)
    with pytest.raises(Unavailable, match=r"folder .* is not there"):
        run(["true"], cwd=tmp_path / "none", timeout=5)
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    with pytest.raises(Unavailable, match="interpreter"):
        run(["./script"], cwd=tmp_path, timeout=5)


def test_commands_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="empty"):
        run([], cwd=tmp_path, timeout=5)
    with pytest.raises(BadInput, match="NUL"):
        run(["echo", "a\0b"], cwd=tmp_path, timeout=5)


def test_arguments_pass_no_shell(tmp_path: Path) -> None:
    hostile = "$(touch pwned); `touch pwned` & | > pwned '\""
    assert run(["printf", "%s", hostile], cwd=tmp_path, timeout=5).output == hostile
    assert not (tmp_path / "pwned").exists()


def test_marks_of_runs_inside_runs_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "outer")
    outcome = run([*PY, f"import os; print(os.environ['{MARK}'])"], cwd=tmp_path, timeout=5)
    assert outcome.output.startswith("outer,")


def test_a_signal_is_named(tmp_path: Path) -> None:
    outcome = python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", tmp_path)
    assert outcome.ending() == "ended by SIGSEGV"


def test_no_file_descriptor_is_left_open(tmp_path: Path) -> None:
    run(["true"], cwd=tmp_path, timeout=5)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        run(["echo", "x"], cwd=tmp_path, timeout=5, input="y", merge=False)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_short_program_is_quick(tmp_path: Path) -> None:
    began = time.monotonic()
    for _ in range(20):
        run(["true"], cwd=tmp_path, timeout=5)
    assert (time.monotonic() - began) / 20 < 0.05
