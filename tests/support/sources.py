"""Real projects for tests: a pinned source distribution, fetched once through pip and kept under ``.cache``.

Which index pip asks is pip's own configuration. Where it answers nothing the test is left out and says why.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import filelock
import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "sources"
TIMEOUT = 120


@dataclass(frozen=True)
class Source:
    """A distribution's file, by name, version and digest."""

    name: str
    version: str
    sha256: str

    @property
    def archive(self) -> Path:
        return CACHE / f"{self.name}-{self.version}.tar.gz"


PLUGGY = Source("pluggy", "1.6.0", "7dcc130b76258d33b90f61b658791dede3486c3e6bfb003ee5c9bfb396dd22f3")


def unpacked(source: Source, folder: Path) -> Path:
    """The distribution's own folder, unpacked in ``folder``. Skips the test where it cannot be had."""
    _fetch(source)
    with tarfile.open(source.archive) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"{source.name}-{source.version}"


def _fetch(source: Source) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(CACHE / f"{source.name}.lock"):
        if not _is_whole(source):
            _download(source)


def _is_whole(source: Source) -> bool:
    if not source.archive.is_file():
        return False
    return hashlib.sha256(source.archive.read_bytes()).hexdigest() == source.sha256


def _download(source: Source) -> None:
    """By pip, which checks the digest; its own copy of a build environment stays out of ours."""
    wanted = CACHE / f"{source.name}.txt"
    wanted.write_text(f"{source.name}=={source.version} --hash=sha256:{source.sha256}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    own = ["--no-binary", source.name, "--require-hashes", "--dest", str(CACHE), "--requirement", str(wanted)]
    try:
        done = subprocess.run([*pip, *own], capture_output=True, text=True, timeout=TIMEOUT, check=False)
        said = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except subprocess.TimeoutExpired:
        said = [f"pip did not end within {TIMEOUT} s"]
    if not _is_whole(source):
        pytest.skip(f"{source.name} {source.version} cannot be had from the package index: {' '.join(said)}")
