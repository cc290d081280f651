"""The house rules: each takes a file's name and text, and returns a line on every place that breaks it.

tests/house/test_house_rules.py holds the tree against each rule, and each rule against a planted violation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import click

Rule = Callable[[str, str], list[str]]

# Put together here, so that this file does not break its own rule.
FORBIDDEN_WORDS = {
    re.compile(pattern): reason
    for pattern, reason in {
        r"(?:files\.)?py" + r"pi\.org|python" + r"hosted\.org": "a registry's host name",
        r"registry\.npm" + r"js\.org|registry\.yarn" + r"pkg\.com": "a registry's host name",
        r"proxy\.go" + r"lang\.org|static\.crates" + r"\.io|index\.crates" + r"\.io": "a registry's host name",
        r"deb\.deb" + r"ian\.org|archive\.ubun" + r"tu\.com": "a registry's host name",
        r"--(?:extra-)?ind" + r"ex-url|--find" + r"-links|(?:extra-)?ind" + r"ex-url\s*=": "a package index setting",
        r"(?<![\w.~/*}-])/wo" + r"rk/": "a path of one machine",
        r"(?<![\w.~/*}-])/tmp/(?:tm|v)" + r"/": "a path of one machine",
        r"(?<![\w.~/*}-])/ro" + r"ot/": "a path of one machine",
        r"shared/(?:des" + r"ign|seeds|screens|vectors|hooks)": "a path outside the project",
    }.items()
}

WAITING_CALLS = ("time.sleep", "sleep", "asyncio.sleep", "anyio.sleep")
SHELL_CALLS = ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput")
CLOCK_METHODS = ("now", "utcnow", "today")
CORE_FORBIDDEN_MODULES = ("time", "random", "secrets", "uuid")
CORE_FORBIDDEN_CALLS = ("open", "input", "print", "exec", "eval", "breakpoint", "__import__")

LONGEST_SLEEP_SECONDS = 0.2


def forbidden_words(name: str, text: str) -> list[str]:
    """No registry host, index setting or path of somebody's machine: the project speaks of itself alone."""
    return [
        f"{name}:{number}: {reason}: {found.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, reason in FORBIDDEN_WORDS.items()
        if (found := pattern.search(line))
    ]


def missing_docstring(name: str, text: str) -> list[str]:
    """Every module says at its top what it is for."""
    if (ast.get_docstring(ast.parse(text)) or "").strip():
        return []
    return [f"{name}:1: no docstring at the top"]


def _calls(text: str) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def sleeps(name: str, text: str) -> list[str]:
    """A test waits for a condition (tests/support/waiting.py); a sleep of 0.2 s or more hopes for luck."""
    return [
        f"{name}:{call.lineno}: sleeps {call.args[0].value} s"
        for call, function in _calls(text)
        if function in WAITING_CALLS
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, int | float)
        and call.args[0].value >= LONGEST_SLEEP_SECONDS
    ]


def shells(name: str, text: str) -> list[str]:
    """No shell between the project and a program: names and texts come from people who are not trusted."""
    found = []
    for call, function in _calls(text):
        if function in SHELL_CALLS:
            found.append(f"{name}:{call.lineno}: {function} runs a shell")
        found += [
            f"{name}:{call.lineno}: shell={ast.unparse(keyword.value)}"
            for keyword in call.keywords
            if keyword.arg == "shell" and ast.unparse(keyword.value) != "False"
        ]
    return found


def impure_core(name: str, text: str) -> list[str]:
    """The core asks no clock and no chance, and opens nothing: what an import contract cannot see."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in CLOCK_METHODS:
            owner = ast.unparse(node.value).rpartition(".")[2]
            if owner in ("datetime", "date"):
                found.append(f"{name}:{node.lineno}: {owner}.{node.attr} reads the clock")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported = [alias.name for alias in node.names]
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else imported
            found += [
                f"{name}:{node.lineno}: imports {module}" for module in modules if module in CORE_FORBIDDEN_MODULES
            ]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in CORE_FORBIDDEN_CALLS:
            found.append(f"{name}:{node.lineno}: calls {ast.unparse(node.func)}")
    return found


def verbs_without_help(command: click.Command, path: str) -> list[str]:
    """Every verb and every option explains itself; walks groups and loads their verbs, lazy ones too."""
    found = []
    if not (command.help or "").strip():
        found.append(f"{path}: no help text")
    found += [
        f"{path} {parameter.opts[0]}: no help text"
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden and not (parameter.help or "").strip()
    ]
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            verb = command.get_command(context, name)
            if verb is None:
                found.append(f"{path} {name}: listed, but does not load")
            elif not verb.hidden:
                found += verbs_without_help(verb, f"{path} {name}")
    return found
