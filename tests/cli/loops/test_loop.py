"""``taskmaestro loop``: every verb on real files and standard input, one document or many lines, good and bad."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.cli.loop import VERBS
from conductor.cli.main import main
from conductor.core.loops import draft, follow_up_loop, merge, plan, reviewer_loop, routing
from tests.cli.conftest import command, environment
from tests.core.loops.vectors import vectors

SNAPSHOT = {"prExists": True, "reviewRequested": True}
ROUTE = {"target": {"repo": "o/n", "pr": 1}, "copilotState": "pr_draft", "reviewerState": "submitted_review"}
RESULTS = {"headSha": "abc", "runResults": [{"angle": "tests", "findings": [{"message": "m"}]}]}
MERGED = merge.detect(RESULTS)
CASES: dict[str, tuple[Any, Any]] = {
    "reviewer": (SNAPSHOT, reviewer_loop.detect(SNAPSHOT)),
    "follow-up": (SNAPSHOT, follow_up_loop.detect(SNAPSHOT)),
    "route": (ROUTE, routing.detect(ROUTE)),
    "plan": ({"maxParallel": 2}, plan.detect({"maxParallel": 2})),
    "merge": (RESULTS, MERGED),
    "draft": (MERGED, draft.detect(MERGED)),
}


class Told:
    """What a call printed and answered."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def value(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> str:
        fault = json.loads(self.err)
        assert set(fault) == {"ok", "error"}
        assert fault["ok"] is False
        return str(fault["error"])


class Loop:
    """Calls ``taskmaestro loop`` in this process, with bytes on its standard input."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str | Path, stdin: bytes | str = b"") -> Told:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        code = main(["loop", *map(str, arguments)])
        told = self._capsys.readouterr()
        return Told(code, told.out, told.err)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Loop:
    return Loop(monkeypatch, capsys)


@pytest.mark.parametrize("verb", CASES)
def test_a_file_and_standard_input_are_answered_alike(loop: Loop, verb: str, tmp_path: Path) -> None:
    value, wanted = CASES[verb]
    file = tmp_path / "an input.json"
    file.write_text(json.dumps(value, indent=2), encoding="utf-8")
    for told in (
        loop(verb, "--input", file),
        loop(verb, "--input", "-", stdin=json.dumps(value)),
        loop(verb, "--json", "--input", "-", stdin=json.dumps(value, indent=2)),
    ):
        assert (told.code, told.err) == (0, "")
        assert told.value == wanted
        assert told.out.count("\n") == 1


@pytest.mark.parametrize("verb", CASES)
def test_a_filter_picks_and_silence_prints_nothing(loop: Loop, verb: str) -> None:
    raw = json.dumps(CASES[verb][0])
    assert loop(verb, "--jq", ".ok", "--input", "-", stdin=raw).out == "true\n"
    told = loop(verb, "--silent", "--input", "-", stdin=raw)
    assert (told.code, told.out, told.err) == (0, "", "")


def test_a_filter_that_picks_nothing_prints_nothing(loop: Loop) -> None:
    raw = json.dumps(SNAPSHOT)
    assert loop("reviewer", "--jq", "empty", "--input", "-", stdin=raw).out == ""
    two = f"{raw}\n{json.dumps({**SNAPSHOT, 'reviewRequested': False})}\n"
    picked = loop("reviewer", "--jq", 'select(.state != "review_requested") | .ok', "--input", "-", stdin=two)
    assert picked.out == "true\n"


@pytest.mark.parametrize("verb", CASES)
def test_a_closed_standard_input_is_told_as_that(verb: str) -> None:
    argv = ["sh", "-c", 'exec "$@" <&-', "sh", *command("loop", verb, "--input", "-")]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input is closed" in done.stderr


@pytest.mark.parametrize("verb", CASES)
def test_what_is_not_an_object_is_bad_input(loop: Loop, verb: str) -> None:
    told = loop(verb, "--input", "-", stdin="[1, 2]")
    assert (told.code, told.out) == (2, "")
    assert "must be a JSON object, not a list" in told.error


@pytest.mark.parametrize("verb", CASES)
def test_a_bad_line_is_told_in_its_place_and_the_others_go_on(loop: Loop, verb: str) -> None:
    value, wanted = CASES[verb]
    good = json.dumps(value)
    told = loop(verb, "--input", "-", stdin=f"{good}\n{{oops\n\n[]\n{good}")
    assert told.code == 1
    first, second, third, last = told.lines
    assert first == last == wanted
    assert (second["ok"], second["line"]) == (False, 2)
    assert "is not JSON" in second["error"]
    assert (third["ok"], third["line"]) == (False, 4)
    assert "2 of the lines" in told.error


def test_the_first_line_may_be_the_bad_one(loop: Loop) -> None:
    for bad in ("nope", "5", "[]", '{"prExists": '):
        told = loop("reviewer", "--input", "-", stdin=f"{bad}\n{json.dumps(SNAPSHOT)}\n")
        assert told.code == 1
        assert [(line["ok"], line.get("line")) for line in told.lines] == [(False, 1), (True, None)]


def test_a_filter_does_not_hide_a_bad_line(loop: Loop) -> None:
    told = loop("reviewer", "--jq", ".state", "--input", "-", stdin=f"{json.dumps(SNAPSHOT)}\nnope\n")
    state, bad = told.out.splitlines()
    assert state == "review_requested"
    assert json.loads(bad)["line"] == 2


def test_a_broken_document_of_many_lines_is_one_fault(loop: Loop) -> None:
    told = loop("reviewer", "--input", "-", stdin=json.dumps(SNAPSHOT, indent=2)[:-2])
    assert (told.code, told.out) == (2, "")
    assert "standard input is not JSON" in told.error
    assert "line 3" in told.error


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"\r\n\n", b"\xef\xbb\xbf\r\n"])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n\r\n"])
def test_a_byte_order_mark_and_blank_lines_do_not_matter(loop: Loop, start: bytes, end: bytes) -> None:
    told = loop("reviewer", "--input", "-", stdin=start + json.dumps(SNAPSHOT).encode() + end)
    assert (told.code, told.value) == (0, CASES["reviewer"][1])


@pytest.mark.parametrize(
    ("number", "read"),
    [("1" * 300, int("1" * 300)), ("1" * 5000, None), ("1e400", None), ("-1e400", None), ("7e0", 7), ("9e-1", None)],
)
def test_huge_numbers_are_read_or_fall_back(loop: Loop, number: str, read: int | None) -> None:
    told = loop("reviewer", "--input", "-", stdin=f'{{"prExists": true, "prNumber": {number}}}')
    assert (told.code, told.value["snapshot"]["prNumber"]) == (0, read)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\xff\xfe{}", "is not UTF-8"),
        (b'{"prNumber": NaN}', "NaN is no JSON"),
        (b'{"prNumber": -Infinity}', "-Infinity is no JSON"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b"{} {}", "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
    ],
)
def test_input_that_cannot_be_taken_is_one_clear_fault(loop: Loop, raw: bytes, words: str) -> None:
    told = loop("reviewer", "--input", "-", stdin=raw)
    assert (told.code, told.out) == (2, "")
    assert words in told.error


def test_hostile_text_reaches_no_terminal(loop: Loop) -> None:
    told = loop("reviewer", "--input", "-", stdin='{"draftReviewUrl": "\\u001b]0;x\\u0007\\u202e\\ud800"}')
    assert told.code == 0
    assert told.out.isprintable() or told.out.rstrip("\n").isprintable()
    assert told.value["snapshot"]["draftReviewUrl"] == "\x1b]0;x\x07\u202e\ud800"


def test_a_file_that_cannot_be_read_is_bad_input(loop: Loop, tmp_path: Path) -> None:
    for name in (tmp_path / "none.json", tmp_path, "a\0b"):
        told = loop("reviewer", "--input", name)
        assert (told.code, told.out) == (2, "")
        assert "cannot be read" in told.error


def test_limits_come_from_a_file(loop: Loop, tmp_path: Path) -> None:
    config = tmp_path / "limits.json"
    config.write_text('{"maxCopilotRounds": 2}', encoding="utf-8")
    raw = '{"prExists": true, "copilotReviewRoundCount": 2, "ciStatus": "failure"}'
    assert loop("follow-up", "--input", "-", stdin=raw).value["state"] == "blocked_needs_user_decision"
    capped = loop("follow-up", "--config", config, "--input", "-", stdin=raw)
    assert capped.value["state"] == "round_cap_reached"
    config.write_text("[]", encoding="utf-8")
    wrong = loop("follow-up", "--config", config, "--input", "-", stdin=f"{raw}\n{raw}")
    assert (wrong.code, wrong.out) == (2, "")
    assert "config must be a JSON object" in wrong.error
    config.write_text("null", encoding="utf-8")
    assert loop("follow-up", "--config", config, "--input", "-", stdin=raw).code == 0


@pytest.mark.parametrize(
    ("verb", "name", "key"), [("reviewer", "reviewer_loop", "snapshot"), ("route", "routing", "input")]
)
def test_the_worked_examples_as_lines(loop: Loop, verb: str, name: str, key: str) -> None:
    cases = vectors(name)
    told = loop(verb, "--input", "-", stdin="\n".join(json.dumps(case[key]) for case in cases))
    assert told.code == 0
    field = "state" if verb == "reviewer" else "routingOutcome"
    assert [line[field] for line in told.lines] == [case[field] for case in cases]


@pytest.mark.parametrize(
    "arguments", [("reviewer",), ("reviewer", "--input"), ("reviewer", "--loud"), ("no-such-verb",), ("graph", "x")]
)
def test_wrong_usage_is_told_as_json(loop: Loop, arguments: tuple[str, ...]) -> None:
    told = loop(*arguments)
    assert (told.code, told.out) == (2, "")
    assert told.error


def test_without_a_verb_the_help_is_shown(loop: Loop) -> None:
    told = loop()
    assert told.code == 2
    for verb in VERBS:
        assert verb in told.err


@pytest.mark.parametrize("form", ["mermaid", "dot", "svg"])
@pytest.mark.parametrize("name", ["reviewer", "follow-up", "outer", "cycle"])
def test_a_graph_is_drawn(loop: Loop, name: str, form: str) -> None:
    told = loop("graph", name, "--format", form)
    start = {"mermaid": "stateDiagram-v2\n", "dot": f'digraph "{name}"', "svg": "<svg "}[form]
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(start)


def test_a_graph_comes_as_data_too(loop: Loop) -> None:
    edges = loop("graph", "reviewer", "--json").value["edges"]
    assert len(edges) == len(reviewer_loop.MOVES)
    names = loop("graph", "follow-up", "--jq", ".nodes[]").out.splitlines()
    assert names == [state.value for state in follow_up_loop.FollowUpState]


def test_lines_are_answered_as_they_come() -> None:
    """A program may keep one process and ask it again and again."""
    with subprocess.Popen(
        command("loop", "reviewer", "--input", "-", "--jq", ".state"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for value, state in ((SNAPSHOT, b"review_requested\n"), ({}, b"waiting_for_review_request\n")):
            process.stdin.write(json.dumps(value).encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == state
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_a_detector_loads_neither_pydantic_nor_dataclasses_nor_jq(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps(SNAPSHOT), encoding="utf-8")
    code = (
        "import sys\n"
        "from conductor.cli.main import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "heavy = {'pydantic', 'dataclasses', 'jq', 'git', 'libtmux', 'conductor.core.loops.follow_up_loop'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "loop", "reviewer", "--silent", "--input", str(file)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("raw", ["", " \n", "\ufeff"])
def test_an_empty_file_of_limits_is_told_as_that(loop: Loop, tmp_path: Path, raw: str) -> None:
    config = tmp_path / "limits.json"
    config.write_text(raw, encoding="utf-8")
    told = loop("follow-up", "--config", config, "--input", "-", stdin=json.dumps(SNAPSHOT))
    assert (told.code, told.error.splitlines()[0]) == (2, f"{config} is empty")
