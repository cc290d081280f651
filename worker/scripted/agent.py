"""What the scripted agent does with a prompt: finds the turn, goes through its steps, tells its hooks."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import BadInput, Fault, NotSo
from schemas.text import one_line
from worker.scripted.keys import Composer, Key
from worker.scripted.script import DIED, Script, filled
from worker.scripted.terminal import Ended, Terminal
from worker.task import TASK_FILE, Task, read_task

if TYPE_CHECKING:
    from worker.tools.process import Outcome

TRUST = "Do you trust the files in this folder?"
PERMISSION = "Allow this? (y/n)"
COMMAND_TIMEOUT = 1800.0
HOOK_TIMEOUT = 20.0
_MESSAGE = re.compile(r"^\s*\[msg ([\w.-]{1,64})\]")
_CHOSEN = "\u276f"
_EXITS = ("/exit", "/quit")


class Interrupted(Exception):
    """The turn is over because of a key or a refusal."""


class Agent:
    """One run of the program, in ``folder``."""

    def __init__(self, terminal: Terminal, script: Script, folder: Path) -> None:
        self.terminal, self.script, self.folder = terminal, script, folder
        self.composer = Composer()
        self.task: Task | None = None
        self.memory = _memory_file(script.options.memory, folder)
        self.turn, self.used = _remembered(self.memory)
        self.pasted_at = 0.0

    def run(self, prompt: str | None) -> None:
        """Until ``/exit`` or the end of input; raises ``Ended`` for another exit code."""
        if self.script.options.trust:
            self._ask_trust()
        self.composer.insert(self.script.options.draft)
        if prompt is not None:
            self._submit(prompt)
        self._idle()
        if prompt is not None:
            self._hook("stop")
        while self._take(self.terminal.key()):
            if not self.terminal.keys:  # draw once for a burst
                self.terminal.show(self.composer.shown)

    def _idle(self) -> None:
        self.terminal.show(self.composer.shown)
        self.terminal.title("idle")

    def _take(self, key: Key) -> bool:
        """One key at the composer; False ends the program."""
        if key.name == "enter":
            return self._enter()
        if key.name == "paste":
            self.composer.paste(key.text)
            self.pasted_at = time.monotonic()
        elif key.name == "text":
            self.composer.insert(key.text)
        elif key.name == "newline":
            self.composer.newline()
        elif key.name == "backspace":
            self.composer.backspace()
        elif key.name in ("clear", "interrupt"):
            self.composer.clear()
        elif key.name == "eof":
            return bool(self.composer.pieces)
        return True

    def _enter(self) -> bool:
        if time.monotonic() - self.pasted_at < self.script.options.drop_enter_ms / 1000:
            return True  # it is still digesting the paste, and the key is lost
        text = self.composer.text.strip()
        if text in _EXITS:
            return False
        if text:
            self.composer.clear()
            self._submit(text)
            self._idle()
            self._hook("stop")
        return True

    # --- a turn
    # ------------------------------------------------------------------------------------------------------

    def _submit(self, text: str) -> None:
        self.terminal.title("busy")
        self.terminal.show(None)
        self.terminal.print(f"> {one_line(text, 2000)}")
        self._hook("prompt", {"prompt": text})
        try:
            self._turn(text)
        except Interrupted as why:
            self.terminal.print(str(why))
        except Fault as fault:
            self.terminal.print(f"Error: {one_line(str(fault), 2000)}")

    def _turn(self, text: str) -> None:
        found = _MESSAGE.match(text)
        if found is not None and not text.rstrip().endswith(f"[end {found[1]}]"):
            raise BadInput(f"the prompt is torn: message {found[1]} has no end")
        if text.startswith("/"):
            raise BadInput(f"unknown command {one_line(text, 40)}")
        self.task = read_task(self.folder) if TASK_FILE in text else None
        index = self.script.pick(self.task, self.used)
        self.turn += 1
        if index is not None:
            self.used.add(index)
        self._remember()
        if self.turn == self.script.options.die_at_turn:
            raise Ended(DIED)
        if self.turn == self.script.options.silent_at_turn:
            self._silent(True)
        if index is None:
            self.terminal.print("There is nothing in the script for this.")
            return
        for step in self.script.turns[index].steps:
            getattr(self, f"_{step.kind}")(filled(step.value, self.task))

    def _remember(self) -> None:
        if self.memory is not None:
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            self.memory.write_text(json.dumps({"turn": self.turn, "used": sorted(self.used)}), encoding="utf-8")

    def _hook(self, event: str, data: dict[str, str] | None = None) -> None:
        """Run the hook command with the event's name; a hook that fails is shown and changes nothing."""
        raw = os.environ.get("TASKMAESTRO_HOOK")
        if not raw:
            return
        try:
            argv = [str(part) for part in json.loads(raw)]
        except (ValueError, TypeError):
            self.terminal.print("TASKMAESTRO_HOOK is not a JSON list; no receipt was written")
            return
        outcome = self._command([*argv, event], input=json.dumps(data or {}), timeout=HOOK_TIMEOUT)
        if not outcome.ok:
            self.terminal.print(f"the {event} hook failed: {one_line(outcome.tail(3))}")

    def _command(self, argv: list[str], *, input: str | None = None, timeout: float = COMMAND_TIMEOUT) -> Outcome:
        from worker.tools.process import run  # not needed to start

        outcome = run(
            argv,
            cwd=self.folder,
            timeout=timeout,
            input=input,
            cancelled=lambda: self.terminal.ended,
            leave=True,  # an agent's shell leaves its background jobs alone, too
        )
        if outcome.cancelled:
            self.terminal.pause(0)  # raises for the signal
        return outcome

    def _shown(self, argv: list[str], *, input: str | None = None) -> None:
        """Run it and print what it says; a failure ends the turn with an error line."""
        self.terminal.print("$ " + " ".join(argv if argv[0] != sys.executable else ["taskmaestro", *argv[4:]]))
        outcome = self._command(argv, input=input)
        for line in outcome.tail(12).splitlines():
            self.terminal.print(f"  {line}")
        if not outcome.ok:
            raise NotSo(f"{argv[0].rpartition('/')[2]}: {outcome.ending()}")

    def _taskmaestro(self, *args: str, input: str | None = None) -> None:
        self._shown([sys.executable, "-P", "-m", "conductor", *args], input=input)

    # --- steps, by name
    # ----------------------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self.terminal.print(text)

    def _write(self, value: dict[str, str]) -> None:
        path = self.folder / value["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value["text"], encoding="utf-8")
        self.terminal.print(f"Wrote {value['path']}")

    def _replace(self, value: dict[str, str]) -> None:
        path = self.folder / value["path"]
        text = path.read_text(encoding="utf-8")
        if value["old"] not in text:
            raise NotSo(f"{value['path']} does not contain {one_line(value['old'], 60)!r}")
        path.write_text(text.replace(value["old"], value["new"], 1), encoding="utf-8")
        self.terminal.print(f"Changed {value['path']}")

    def _delete(self, name: str) -> None:
        (self.folder / name).unlink()
        self.terminal.print(f"Deleted {name}")

    def _git(self, args: list[str]) -> None:
        self._shown(["git", *args])

    def _run(self, argv: list[str]) -> None:
        self._shown(argv)

    def _ship(self, value: dict[str, Any]) -> None:
        args = [f"--{name}={value[name]}" for name in ("title", "message", "summary") if name in value]
        if value.get("amend"):
            args.append("--amend")
        if "body" not in value:
            self._taskmaestro("ship", *args)
            return
        import tempfile  # not needed to start

        with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as body:
            body.write(str(value["body"]))
            body.flush()
            self._taskmaestro("ship", *args, f"--body-file={body.name}")

    def _report(self, value: dict[str, Any]) -> None:
        names = ("pr", "error", "cycle", "summary", "result")
        args = [f"--{name}={value[name]}" for name in names if name in value]
        findings = json.dumps(value["findings"]) if "findings" in value else None
        if findings is not None:
            args.append("--findings-file=-")
        self._taskmaestro("report", str(value.get("kind", "success")), *args, input=findings)

    def _wait(self, seconds: float) -> None:
        if self.terminal.pause(seconds):
            raise Interrupted("Interrupted.")

    def _result(self, value: str | dict[str, Any]) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        (self.folder / "RESULT.json").write_text(text, encoding="utf-8")
        self.terminal.print("Wrote RESULT.json")

    def _half(self, value: dict[str, Any]) -> None:
        text = str(value.get("text") or json.dumps({"status": "success", "pr_number": 1, "summary": "x" * 200}))
        half = len(text) // 2
        with (self.folder / "RESULT.json").open("w", encoding="utf-8") as file:
            file.write(text[:half])
            file.flush()
            self.terminal.print("Wrote half of RESULT.json")
            if "finish_after" in value:
                self._wait(float(value["finish_after"]))
                file.write(text[half:])
                self.terminal.print("Wrote the rest of RESULT.json")

    def _ask(self, what: str) -> None:
        """Ask for leave; Enter alone means yes, as with the programs that it stands for."""
        self.terminal.print(what)
        self.terminal.print(PERMISSION)
        self.terminal.title("asks")
        self._hook("permission")
        while True:
            key = self.terminal.key()
            if key.name == "enter" or (key.name == "text" and key.text[:1] in "yY"):
                break
            if key.name in ("escape", "interrupt") or (key.name == "text" and key.text[:1] in "nN"):
                self.terminal.title("busy")
                raise Interrupted("Denied.")
        self.terminal.title("busy")
        self.terminal.print("Allowed.")

    def _error(self, text: str) -> None:
        raise Interrupted(f"Error: {text}")

    def _limit(self, when: str) -> None:
        raise Interrupted(f"Usage limit reached, resets at {when}")

    def _die(self, code: int) -> None:
        raise Ended(code)

    def _silent(self, _: bool) -> None:
        while True:
            self.terminal.pause(3600)

    # --- at the start
    # ------------------------------------------------------------------------------------------------

    def _ask_trust(self) -> None:
        """The preselected row is No: a blind Enter ends the program."""
        self.terminal.title("asks")
        yes = False
        while True:
            self.terminal.page([TRUST, f"{' ' if yes else _CHOSEN} 1. No", f"{_CHOSEN if yes else ' '} 2. Yes"])
            key = self.terminal.key()
            if key.name in ("up", "down"):
                yes = key.name == "down"
            elif key.name == "text" and key.text[:1] in "12":
                yes = key.text[:1] == "2"
            if key.name in ("escape", "interrupt", "eof") or (key.name in ("enter", "text") and not yes):
                raise Ended(1)
            if key.name in ("enter", "text"):
                self.terminal.page([])
                return


def _memory_file(folder: str, working: Path) -> Path | None:
    return Path(folder) / f"{working.name}.json" if folder else None


def _remembered(path: Path | None) -> tuple[int, set[int]]:
    if path is None or not path.is_file():
        return 0, set()
    data = json.loads(path.read_text(encoding="utf-8"))
    return int(data["turn"]), set(data["used"])
