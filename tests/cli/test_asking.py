"""``decide`` and ``assign`` leave a person's word for the conductor, and say what became of it.

The conductor's part, taking the inbox and journalling, is played by ``Taker`` with the real inbox, rules and journal.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor import inbox
from conductor.cli import requests
from conductor.cli.main import main
from conductor.forge.local.forge import LocalForge
from conductor.lock import ConductorLock
from schemas.config import LocalForgeConfig
from schemas.events import TaskGiven, UserDecided
from schemas.pane import Role, Status
from tests.support.repos import commit_file, git
from tests.support.stories import Run

Out = pytest.CaptureFixture[str]


class Taker:
    """Holds the lock and takes requests from the inbox, as the living conductor does."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = ConductorLock(run.layout.lock)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._lock.acquire()
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(0.02):
            for path in inbox.waiting(self._run.layout.inbox):
                for event in inbox.events_of(path):
                    self._run.event(event, perform=False)
                path.unlink()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._lock.release()


@pytest.fixture
def free(run: Run) -> Run:
    """The story with a fifth pane that never had a task."""
    run.add(5)
    run.settle()
    return run


@pytest.fixture
def alive(free: Run) -> Iterator[Run]:
    """The same with a conductor that lives."""
    taker = Taker(free)
    yield free
    taker.close()


def waiting(run: Run) -> list[UserDecided | TaskGiven]:
    """The events that wait in the inbox."""
    events = [event for path in inbox.waiting(run.layout.inbox) for event in inbox.events_of(path)]
    assert all(isinstance(event, UserDecided | TaskGiven) for event in events)
    return [event for event in events if isinstance(event, UserDecided | TaskGiven)]


def test_a_decision_is_taken_and_its_rule_is_told(alive: Run, capsys: Out) -> None:
    assert main(["decide", "3", "another-cycle", "--why", "the last finding is easy"]) == 0
    assert capsys.readouterr().out == "pane 3: another review (one more cycle) — settled: cycle_cap\n"
    assert alive.pane(3).attention is None
    line = json.loads(alive.layout.journal.read_text().splitlines()[-1])
    assert line["event"]["who"] == "Tester <tester@example.invalid>"
    assert line["event"]["why"] == "the last finding is easy"


@pytest.fixture
def forge(run: Run) -> Iterator[LocalForge]:
    """The repository's forge."""
    made = LocalForge.create_or_open(run.layout.root, LocalForgeConfig())
    yield made
    made.close()


def test_an_approval_names_the_issue_that_follows_up(alive: Run, forge: LocalForge, capsys: Out) -> None:
    number = str(forge.create_issue("Mend the rest", "").number)
    assert main(["decide", "3", "approve", "--why", "accepted", "--follow-up", number, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["taken"], told["rule"], told["refused"]) == (True, "approved by a person", False)
    assert told["message"].endswith("→ approved (cycle 3) — settled: cycle_cap")
    assert alive.pane(3).status is Status.APPROVED


def test_findings_are_left_to_no_issue_that_is_missing_closed_or_a_pull_request(
    run: Run, forge: LocalForge, capsys: Out
) -> None:
    root = run.layout.root
    git(root, "checkout", "--quiet", "-b", "feature")
    commit_file(root, "new.txt", "new\n")
    git(root, "push", "--quiet", "origin", "feature")
    pull = forge.create_pull_request(branch="feature", base="main", title="T", body="", draft=False).number
    closed = forge.create_issue("Old", "").number
    with forge._store.write() as connection:
        connection.execute("UPDATE issues SET state = 'closed' WHERE number = ?", (closed,))
    for number, said in (
        (99, "--follow-up 99: there is no issue #99"),
        (pull, "it is a pull request"),
        (closed, f"issue #{closed} is closed"),
    ):
        assert main(["decide", "3", "approve", "--why", "accepted", "--follow-up", str(number)]) == 2
        assert said in capsys.readouterr().err
    assert waiting(run) == []


def test_a_refusal_is_exit_1_with_the_reason(alive: Run, capsys: Out) -> None:
    assert main(["decide", "3", "retry", "--why", "again"]) == 1
    assert "the cap of reviews is reached: approve, another-cycle or abandon." in capsys.readouterr().out
    assert alive.pane(3).attention is not None


def test_a_task_that_is_worked_on_is_given_up_although_nobody_asked(alive: Run, capsys: Out) -> None:
    assert alive.pane(4).attention is None
    assert main(["decide", "4", "retry", "--why", "x"]) == 1
    assert "nothing waits for a decision in pane 4" in capsys.readouterr().err
    assert main(["decide", "4", "abandon", "--why", "not needed any more"]) == 0
    assert alive.pane(4).status == "done"


def test_without_a_conductor_the_decision_waits(run: Run, capsys: Out) -> None:
    assert main(["decide", "3", "abandon", "--why", "not needed any more"]) == 0
    assert "taken when `taskmaestro conduct` starts" in capsys.readouterr().out
    (event,) = waiting(run)
    assert isinstance(event, UserDecided)
    assert (event.pane, event.verb, event.why) == (3, "abandon", "not needed any more")


def test_without_a_conductor_a_decision_that_the_rules_refuse_is_not_left(run: Run, capsys: Out) -> None:
    assert main(["decide", "3", "approve", "--why", "x"]) == 1
    assert "name the issue that follows them up" in capsys.readouterr().out
    assert waiting(run) == []


def test_a_conductor_that_does_not_answer_is_still_pending(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.setattr(requests, "PATIENCE", 0.2)
    lock = ConductorLock(run.layout.lock)
    lock.acquire()
    try:
        assert main(["decide", "3", "abandon", "--why", "x", "--json"]) == 8
    finally:
        lock.release()
    assert json.loads(capsys.readouterr().out)["taken"] is False
    assert len(waiting(run)) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["1", "approve", "--why", "x"], 1, "nothing waits for a decision in pane 1: it is approved"),
        (["9", "approve", "--why", "x"], 2, "there is no pane 9\nPanes: 1, 2, 3, 4."),
        (["3", "approve", "--why", " \t\x1b"], 2, "--why is empty"),
        (["3", "retry", "--why", "x", "--follow-up", "3"], 2, "--follow-up goes with approve only"),
        (["3", "shrug", "--why", "x"], 2, "'shrug' is not one of"),
        (["3", "approve"], 2, "Missing option '--why'"),
    ],
)
def test_what_cannot_be_decided_leaves_nothing(
    run: Run, arguments: list[str], code: int, said: str, capsys: Out
) -> None:
    assert main(["decide", *arguments]) == code
    assert said in capsys.readouterr().err
    assert waiting(run) == []


def test_the_login_stands_in_where_git_knows_no_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    git(run.layout.root, "config", "user.name", "")
    git(run.layout.root, "config", "user.email", "")
    monkeypatch.setenv("LOGNAME", "somebody")
    assert requests.who(run.layout) == "somebody"


def test_a_free_pane_takes_a_task_in_ones_own_words(alive: Run, tmp_path: Path, capsys: Out) -> None:
    body = tmp_path / "task.md"
    body.write_text("Politely.\x1b[2J\n")
    assert main(["assign", "5", "--title", "Say \x1bgood evening", "--body-file", str(body)]) == 0
    assert "pane 5: task given (a free pane takes it)" in capsys.readouterr().out
    assignment = alive.pane(5).assignment
    assert assignment is not None
    assert (assignment.title, assignment.body) == ("Say good evening", "Politely.[2J\n")


def test_a_pane_that_is_not_free_refuses(alive: Run, capsys: Out) -> None:
    assert main(["assign", "2", "--title", "More"]) == 1
    assert "Pane 2 still has a task" in capsys.readouterr().out


def test_an_issue_becomes_the_task(free: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import conductor.forge
    from schemas.forge import Issue

    class OneIssue:
        def issue(self, number: int) -> Issue:
            return Issue(number=number, title="Parse dates", body="- [ ] ISO 8601")

    monkeypatch.setattr(conductor.forge, "open_forge", lambda config, root: OneIssue())
    assert main(["assign", "5", "--issue", "31"]) == 0
    (event,) = waiting(free)
    assert isinstance(event, TaskGiven)
    assert (event.issue, event.title, event.body) == (31, "Parse dates", "- [ ] ISO 8601")


def test_issues_and_agents_that_do_not_exist_are_bad_input(free: Run, forge: LocalForge, capsys: Out) -> None:
    for arguments, said in (
        (["assign", "5", "--issue", "99"], "--issue 99: there is no issue #99"),
        (["up", "2", "--issues", "99"], "--issues 99: there is no issue #99"),
        (["up", "2", "--agent", "nope"], "--agent nope: no such agent is known\nKnown: claude, scripted;"),
    ):
        assert main(arguments) == 2
        assert said in capsys.readouterr().err
    assert waiting(free) == []


@pytest.mark.parametrize(
    "arguments",
    [["assign", "5", "--issue"], ["decide", "3", "approve", "--why", "x", "--follow-up"], ["pr", "reopen"]],
)
def test_a_number_that_no_forge_has_is_a_usage_error_and_no_defect(
    free: Run, forge: LocalForge, arguments: list[str], capsys: Out
) -> None:
    assert main([*arguments, "99999999999999999999"]) == 2
    assert "99999999999999999999 is not in the range 1<=x<=1000000000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it names no issue; leave the option out"),
        (" ", "it names no issue; leave the option out"),
        ("1,,2", "an empty place in '1,,2'; expected numbers such as 12,13,14"),
        ("1,", "an empty place in '1,'"),
        (",", "an empty place in ','"),
        ("1,two", "'two' is no issue number"),
        ("0", "'0' is no issue number"),
        ("-1", "'-1' is no issue number"),
        ("1_0", "'1_0' is no issue number"),
        ("\u0663", "is no issue number"),
        ("99999999999999999999", "'99999999999999999999' is no issue number"),
        ("3,#3", "issue 3 is named twice"),
    ],
)
def test_issues_that_are_no_list_of_numbers_are_a_usage_error(
    free: Run, value: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.setattr("conductor.loop.bring_up.bring_up", lambda *_, **__: pytest.fail("panes were made"))
    assert main(["up", "2", "--agent", "scripted", "--issues", value]) == 2
    told = capsys.readouterr().err
    assert "Invalid value for '--issues': " in told
    assert said in told
    assert waiting(free) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1"], "one of --issue and --title is needed"),
        (["1", "--issue", "3", "--title", "x"], "one of --issue and --title is needed"),
        (["1", "--issue", "3", "--body-file", "x"], "an issue has its own text"),
        (["1", "--title", " \x1b "], "the task has no title"),
        (["9", "--title", "x"], "there is no pane 9"),
        (["1", "--title", "x", "--body-file", "/nowhere/x"], "cannot be read"),
        (["6", "--title", "x"], "pane 6 is a reviewer, not a worker"),
    ],
)
def test_what_is_no_task_leaves_nothing(run: Run, arguments: list[str], said: str, capsys: Out) -> None:
    run.add(6, role=Role.REVIEWER)
    run.settle()
    assert main(["assign", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert waiting(run) == []
