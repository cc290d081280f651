"""The hook program: one line a receipt, nothing on stdout, never a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from worker.hook import message_id

Done = subprocess.CompletedProcess[bytes]
HOOK = Path(__file__).parents[2] / "worker" / "hook.py"


def run(event: str, stdin: bytes, receipts: Path | None, cwd: Path) -> Done:
    env = {"TASKMAESTRO_PANE": "%3", **({"TASKMAESTRO_RECEIPTS": str(receipts)} if receipts else {})}
    command = [sys.executable, "-I", "-S", str(HOOK), event]
    return subprocess.run(command, input=stdin, env=env, cwd=cwd, capture_output=True, timeout=20, check=False)


def prompt(text: str) -> bytes:
    return json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": text}).encode()


def test_a_prompt_leaves_a_receipt_with_its_message_id(tmp_path: Path) -> None:
    done = run("prompt", prompt("[msg 12] Read TASK.md [end 12]"), tmp_path / "r", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    line = json.loads((tmp_path / "r").read_text())
    assert abs((datetime.now(UTC) - datetime.fromisoformat(line.pop("at"))).total_seconds()) < 60
    assert line == {"event": "prompt", "msg": "12", "pane": "%3"}


@pytest.mark.parametrize("event", ["stop", "error", "permission", "start", "end"])
def test_other_events_have_no_message_id(event: str, tmp_path: Path) -> None:
    run(event, prompt("[msg 12] x"), tmp_path / "r", tmp_path)
    line = json.loads((tmp_path / "r").read_text())
    assert (line["event"], line["msg"]) == (event, None)


@pytest.mark.parametrize(
    ("text", "ident"),
    [
        ("[msg 7] go", "7"),
        ("  \n[msg 2.a_b-3] go", "2.a_b-3"),
        ("see [msg 7]", None),  # quoted, not a delivery
        ("[msg ] go", None),
        ("[msg 7", None),
        ("[msg \x1b[2J] go", None),
        ("[msg " + "9" * 64 + "]", "9" * 64),
        ("[msg " + "9" * 65 + "]", None),
    ],
)
def test_message_ids(text: str, ident: str | None) -> None:
    assert message_id(text) == ident


@pytest.mark.parametrize("stdin", [b"", b"{", b"[]", b"\xff\xfe", b'{"prompt": 5}', b"[" * 100_000])
def test_strange_input_still_leaves_a_receipt(stdin: bytes, tmp_path: Path) -> None:
    done = run("prompt", stdin, tmp_path / "r", tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert json.loads((tmp_path / "r").read_text())["msg"] is None


def test_nothing_blocks_the_agent(tmp_path: Path) -> None:
    """An unknown event, no place for receipts, a place that cannot be written: exit 0, told on stderr."""
    for event, receipts in (("other", tmp_path / "r"), ("stop", None), ("stop", tmp_path)):
        done = run(event, b"{}", receipts, tmp_path)
        assert (done.returncode, done.stdout) == (0, b"")
        assert done.stderr.startswith(b"hook: ")
        assert done.stderr.count(b"\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_receipts_of_many_agents_do_not_mix(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(24):
            pool.submit(run, "prompt", prompt(f"[msg {number}] x"), tmp_path / "r", tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()]
    assert sorted(int(line["msg"]) for line in lines) == list(range(24))
