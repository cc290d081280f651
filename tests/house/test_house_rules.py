"""The house rules hold for the whole tree, and each rule is seen to find a planted violation."""

from __future__ import annotations

import importlib.util

import click
import pytest

from tests.support import house_rules as rules
from tests.support.tree import project_files, read_text


def everything(name: str) -> bool:
    return True


def python(name: str) -> bool:
    return name.endswith(".py")


def python_tests(name: str) -> bool:
    return python(name) and name.startswith("tests/")


def core(name: str) -> bool:
    return python(name) and name.startswith("conductor/core/")


# The words are put together here, so that this file does not break the rule itself.
RULES = {
    "forbidden words": (
        rules.forbidden_words,
        everything,
        [
            "see https://py" + "pi.org/simple",
            '"resolved": "https://registry.npm' + 'js.org/x"',
            "--extra-ind" + "ex-url https://example.invalid",
            "open('/wo" + "rk/notes.txt')",
            "as shared/des" + "ign says",
        ],
        [
            "home/me/wo" + "rk/notes",
            "a worktree",
            "share/design.txt",
            "pip install --require-hashes -r requirements.lock",
        ],
    ),
    "a docstring at the top": (
        rules.missing_docstring,
        python,
        ["import os\n", "", '"""   """\n', "# a comment is not enough\n"],
        ['"""What it is for."""\n', '#!/usr/bin/env python3\n"""What it is for."""\n'],
    ),
    "no long sleeps": (
        rules.sleeps,
        python_tests,
        ["import time\ntime.sleep(0.2)\n", "from time import sleep\nsleep(1)\n", "await asyncio.sleep(3)\n"],
        ["import time\ntime.sleep(0.01)\n", "run(['sleep', '600'])\n"],
    ),
    "no shell": (
        rules.shells,
        python,
        [
            "subprocess.run(x, shell=True)\n",
            "run(x, shell=flag)\n",
            "os.system('ls')\n",
            "subprocess.getoutput(x)\n",
        ],
        ["subprocess.run(['ls'], shell=False)\n", "subprocess.run(['ls'])\n"],
    ),
    "a pure core": (
        rules.impure_core,
        core,
        [
            "from datetime import datetime\nx = datetime.now()\n",
            "import datetime\nx = datetime.datetime.utcnow()\n",
            "x = date.today\n",
            "import time\n",
            "from time import monotonic\n",
            "import re, random\n",
            "text = open('x')\n",
        ],
        [
            "from datetime import datetime\ndef late(now: datetime) -> bool:\n    return now > LIMIT\n",
            "x.reopen()\n",
        ],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_the_tree_keeps_the_rule(name: str) -> None:
    rule, applies, _, _ = RULES[name]
    found = []
    for file in project_files():
        text = read_text(file) if applies(file) else None
        if text is not None:
            found += rule(file, text)
    assert found == []


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, (_, _, broken, _) in RULES.items() for text in broken]
)
def test_the_rule_finds_a_planted_violation(name: str, text: str) -> None:
    found = RULES[name][0]("planted.py", text)
    assert len(found) == 1
    assert found[0].startswith("planted.py:")


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, (_, _, _, sound) in RULES.items() for text in sound])
def test_the_rule_lets_sound_text_pass(name: str, text: str) -> None:
    assert RULES[name][0]("sound.py", text) == []


@pytest.mark.parametrize("applies", [everything, python, python_tests, core])
def test_each_rule_looks_at_files_that_exist(applies: object) -> None:
    assert callable(applies)
    assert [file for file in project_files() if applies(file)]


def test_every_verb_and_option_has_help() -> None:
    if importlib.util.find_spec("conductor.cli.main") is None:
        pytest.skip("the command line is not part of this tree yet")
    main = importlib.import_module("conductor.cli.main")
    assert rules.verbs_without_help(main.cli, "taskmaestro") == []


def test_a_verb_or_option_without_help_is_found() -> None:
    @click.group(help="All.")
    def cli() -> None: ...

    @cli.group(help="More.")
    def more() -> None: ...

    @more.command()
    @click.option("--loud")
    @click.option("--quiet", help="Say less.")
    def silent() -> None: ...

    assert rules.verbs_without_help(cli, "taskmaestro") == [
        "taskmaestro more silent: no help text",
        "taskmaestro more silent --loud: no help text",
    ]
