"""Read ``.taskmaestro/config.toml`` of the managed repository, with faults that name the line or the
field.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import ValidationError

from schemas.config import Config
from schemas.errors import BadInput
from schemas.text import one_line
from worker.tools.files import MissingFile, read_regular

CONFIG = Path(".taskmaestro", "config.toml")
MAX_BYTES = 1024 * 1024


def load_config(root: Path) -> Config:
    """The configuration of the repository at ``root`` (its main working tree); the defaults where there
    is no file.

    Raises ``BadInput`` that names the file and the line or the field, and what was expected there.
    """
    path = root / CONFIG
    try:
        raw = read_regular(path, MAX_BYTES)
    except MissingFile:
        return Config()
    return parse_config(raw, path)


def parse_config(raw: bytes, path: Path) -> Config:
    """The configuration in these bytes; ``path`` is for messages."""
    hint = "Mend the file; `taskmaestro init --force` writes a new one and keeps a copy of this."
    try:
        data = tomllib.loads(raw.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
        raise BadInput(f"{path}: not TOML: {one_line(str(fault))}", hint) from None
    try:
        return Config.model_validate(data)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        said = "there is no such setting" if first["type"] == "extra_forbidden" else one_line(str(first["msg"]))
        raise BadInput(f"{path}, {one_line(field)}: {said}", hint) from None
