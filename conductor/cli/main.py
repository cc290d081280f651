"""``taskmaestro``: the table of verbs, and the one boundary at which faults become messages and exit codes.

A verb's module is imported when the verb runs, never to list it: ``--help`` and ``status --json`` answer at once.
Exit codes are those of docs/contracts.md, "Command line".
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import click

from conductor.cli.stdout import OutputLostError, closed, let_go_of_stdout, watch_stdout
from schemas.errors import Fault, Unavailable
from schemas.text import clean

INTERRUPTED = 130
PIPE_CLOSED = 141
DEFECT = 70


class Verb(NamedTuple):
    """Where a verb lives (``module:attribute``) and its line in the list; a test holds the line to the verb's own."""

    place: str
    help: str


SECTIONS: dict[str, dict[str, Verb]] = {
    "Set up and run": {
        "doctor": Verb("conductor.cli.doctor:command", "Say what is missing, and which command installs it here"),
        "init": Verb("conductor.cli.init:command", "Write .taskmaestro/config.toml from what the repository has"),
        "up": Verb("conductor.cli.up:command", "Make worktrees and panes, start the agents and the conductor"),
        "conduct": Verb("conductor.cli.conduct:command", "Run the conductor in this terminal"),
        "attach": Verb("conductor.cli.attach:command", "Show the panes"),
        "stop": Verb("conductor.cli.stop:command", "End the conductor, with --panes the agents too; worktrees stay"),
        "cleanup": Verb("conductor.cli.cleanup:command", "Remove worktrees without losing work"),
    },
    "Look": {
        "status": Verb("conductor.cli.status:command", "Show every pane: status, cycle, pull request, what is awaited"),
        "explain": Verb("conductor.cli.explain:command", "Say why a pane is where it is, and what would move it"),
        "journal": Verb("conductor.cli.journal:command", "Show what happened, oldest first"),
        "loop": Verb("conductor.cli.loop:loop", "Say where a pull request's review loops are, and which acts next"),
        "replay": Verb("conductor.cli.replay:command", "Rebuild the states from the journal and compare them"),
        "schema": Verb("conductor.cli.schema:command", "Print the JSON Schema of a contract"),
    },
    "Decide": {
        "assign": Verb("conductor.cli.assign:command", "Give a pane a task"),
        "decide": Verb("conductor.cli.decide:command", "Decide where a pane waits for a person"),
        "issue": Verb("conductor.cli.issue:issue", "File, read and close issues"),
        "pr": Verb("conductor.cli.pr:pr", "Open, read, check, review, close and reopen pull requests"),
    },
    "For workers, in their pane": {
        "report": Verb(
            "conductor.cli.report:command",
            "Tell the conductor how the task ended; issue, nonce and cycle come from TASK.md",
        ),
        "ship": Verb(
            "conductor.cli.ship:command",
            "Run the battery, commit what is staged, push with a lease, open the pull request, report",
        ),
    },
}
VERBS: dict[str, Verb] = {name: verb for verbs in SECTIONS.values() for name, verb in verbs.items()}


class LazyGroup(click.Group):
    """A group that knows its verbs by name and loads one only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        from importlib import import_module

        module, _, attribute = verb.place.partition(":")
        command = getattr(import_module(module), attribute)
        if not gc.isenabled():
            # What is loaded stays: a verb that runs for long has its own garbage looked for, and only that.
            gc.freeze()
            gc.enable()
        assert isinstance(command, click.Command)  # noqa: S101  # a defect of the table, not of the caller
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in VERBS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, VERBS, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else " `taskmaestro --help` lists the verbs."
            ctx.fail(f"There is no verb `{clean(name)}`.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, verb.help) for name, verb in verbs.items()])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except BrokenPipeError:  # of the group's own help; click would end with 1
            let_go_of_stdout()
            raise click.exceptions.Exit(PIPE_CLOSED) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            let_go_of_stdout()
            raise click.exceptions.Exit(PIPE_CLOSED) from None


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib import metadata

        try:
            version = metadata.version("taskmaestro-conductor")
        except metadata.PackageNotFoundError:
            version = "of a source tree that is not installed"
        click.echo(f"taskmaestro {version}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
)
def cli() -> None:
    """Run several coding agents at once, one tmux pane and one git worktree each, and conduct their review cycle.

    \b
    Example: taskmaestro up 3 --issues 12,13,14
             taskmaestro status

    Exit codes: 0 done; 1 the thing asked about is not so; 2 usage or bad input; 3 a needed program or service is
    missing or unreachable, or the answer cannot be written; 4 a person must decide; 8 still pending; 70 a defect
    of taskmaestro; 130 interrupted; 141 nobody reads the output (any more).
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and answer its exit code. A verb that returns a whole number gives the code itself."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = _wants_json(arguments)
    watch_stdout()
    try:
        code = cli.main(arguments, prog_name="taskmaestro", standalone_mode=False)
        sys.stdout.flush()
    except Fault as fault:
        _tell(fault.what, fault.hint, as_json=as_json)
        return fault.exit_code
    except click.ClickException as fault:
        _tell_usage(fault, as_json=as_json)
        return 2
    except click.Abort:
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        let_go_of_stdout()
        return PIPE_CLOSED
    except OutputLostError as lost:
        return _tell_lost(lost, as_json=as_json)
    except Exception as defect:
        return _tell_defect(defect, as_json=as_json)
    return code if isinstance(code, int) and not isinstance(code, bool) else 0


def _wants_json(arguments: Sequence[str]) -> bool:
    if arguments[:1] == ["loop"]:
        # Its answers are for programs, so its faults are too (review protocol, detectors).
        return True
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(word in ("--json", "--jq") or word.startswith("--jq=") for word in own)


def _tell(what: str, hint: str, *, as_json: bool) -> None:
    text = clean(f"{what}\n{hint}" if hint else what)
    with suppress(OSError):  # where stderr takes nothing either, the exit code has to do
        if as_json:
            import json

            click.echo(json.dumps({"ok": False, "error": text}), err=True)
        else:
            click.echo(f"taskmaestro: {text}", err=True)


def _tell_lost(lost: OutputLostError, *, as_json: bool) -> int:
    let_go_of_stdout()
    done = "What the command had to do may be done: ask with `taskmaestro status`."
    if closed(lost):
        _tell("nobody reads the answer: standard output is closed", done, as_json=as_json)
        return PIPE_CLOSED
    _tell(f"the answer could not be written to standard output: {lost.strerror}", done, as_json=as_json)
    return Unavailable.exit_code


def _tell_usage(fault: click.ClickException, *, as_json: bool) -> None:
    if isinstance(fault, click.exceptions.NoArgsIsHelpError):
        click.echo(fault.format_message(), err=True)
        return
    if as_json:
        _tell(fault.format_message(), "", as_json=True)
        return
    _tell(fault.format_message(), "", as_json=False)
    if isinstance(fault, click.UsageError) and fault.ctx is not None:
        click.echo(f"{fault.ctx.get_usage()}\nTry `{fault.ctx.command_path} --help`.", err=True)


def _tell_defect(defect: Exception, *, as_json: bool) -> int:
    from conductor.cli.crash import keep_traceback

    place = keep_traceback(defect)
    first = str(defect).partition("\n")[0]
    _tell(
        f"this is a defect of taskmaestro: {type(defect).__name__}: {first}"[:500],
        f"The traceback is in {place}; please report it." if place else "",
        as_json=as_json,
    )
    return DEFECT
