"""Read ``.taskmaestro/config.toml`` of the managed repository; faults name line, key and what belongs there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas.config import Config
from schemas.errors import BadInput
from schemas.text import one_line
from worker.tools.files import MissingFile, read_regular

CONFIG = Path(".taskmaestro", "config.toml")
MAX_BYTES = 1024 * 1024
FORGE_REMOTE = "taskmaestro"
"""The remote that is the embedded forge, where the user has an ``origin`` of their own."""
_HINT = "Mend the file; `taskmaestro init --force` writes a new one and keeps a copy of this."
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*[=.]""")


def load_config(root: Path) -> Config:
    """The configuration of the repository at ``root`` (its main working tree); the defaults where there is no file.

    With the embedded forge, and no remote named in the file, ``remote`` is the forge's own where it has one beside
    the user's ``origin``: nothing is ever pushed to a remote of the user's that nobody named.
    Raises ``BadInput`` that lists every fault with its line, ``Unavailable`` where the file cannot be read.
    """
    path = root / CONFIG
    try:
        config = parse_config(read_regular(path, MAX_BYTES), path)
    except MissingFile:
        config = Config()
    if config.forge.kind == "local" and "remote" not in config.model_fields_set and _has_forge_remote(root):
        return config.model_copy(update={"remote": FORGE_REMOTE})
    return config


def _has_forge_remote(root: Path) -> bool:
    """Read off git's own file: a process for each start would cost more than everything else here."""
    try:
        return f'[remote "{FORGE_REMOTE}"]' in (root / ".git" / "config").read_text("utf-8", "replace")
    except OSError:
        return False


def parse_config(raw: bytes, path: Path) -> Config:
    """The configuration in these bytes; ``path`` is for messages."""
    try:
        text = raw.decode("utf-8-sig")
        data = tomllib.loads(text)
    except UnicodeDecodeError as fault:
        raise BadInput(f"{path} is not UTF-8 (byte {fault.start})", "Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as fault:
        raise BadInput(f"{path} is not valid TOML: {one_line(str(fault))}", _HINT) from None
    try:
        return Config.model_validate(data)
    except ValidationError as fault:
        details = fault.errors(include_url=False, include_context=False)
        faults = [_fault(path, text, detail["loc"], detail["msg"], detail["input"]) for detail in details]
        raise BadInput("\n".join(faults), _HINT) from None


def _fault(path: Path, text: str, loc: tuple[int | str, ...], expected: str, got: Any) -> str:
    keys = [part for part in loc if isinstance(part, str)]
    line = line_of(text, keys)
    place = f"{path}:{line}" if line else str(path)
    said = (
        "is not a known key" if expected.startswith("Extra inputs") else f"{expected} (got {one_line(repr(got), 80)})"
    )
    return f"{place}: {one_line('.'.join(str(part) for part in loc))}: {one_line(said, 300)}"


def line_of(text: str, keys: list[str]) -> int | None:
    """The line, from 1, on which this key is set, or the longest part of its path that is found."""
    table: list[str] = []
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = _TABLE.match(line)
        key = _KEY.match(line)
        if header:
            table = [part.strip().strip("\"'") for part in header[1].split(".")]
            path = table
        elif key:
            path = [*table, next(group for group in key.groups() if group is not None)]
        else:
            continue
        if path == keys[: len(path)] and (best is None or len(path) > best[0]):
            best = (len(path), number)
    return None if best is None else best[1]
