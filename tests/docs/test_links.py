"""Every link of every page leads somewhere: to a file of this repository, and to a heading where it names one."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from schemas.pane import AttentionReason

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def pages() -> list[Path]:
    """The pages that the repository has, generated ones included; what is not tracked yet counts too."""
    folders = ("*.md", "docs/*.md", "docs/*/*.md")
    return sorted(path for pattern in folders for path in ROOT.glob(pattern))


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings are reached, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        number = 0
        while (unique := f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(unique)
    return found


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for target in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_to_nothing_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` (c)\n\n[1](#a-b-c) [2](#d) [3](page.md#a-b-c) [4](gone.md) `[5](code)`\n", encoding="utf-8"
    )
    assert broken(page) == ["#d", "gone.md"]


def test_every_page_is_listed() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    listed = [path.relative_to(ROOT / "docs").as_posix() for path in pages() if path.is_relative_to(ROOT / "docs")]
    missing = [name for name in listed if not name.startswith("decisions/0") and name != "README.md"]
    assert [name for name in missing if f"({name})" not in index] == []
    decisions = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    assert [path.name for path in (ROOT / "docs/decisions").glob("0*.md") if f"({path.name})" not in decisions] == []


def test_every_reason_for_attention_is_explained() -> None:
    assert {str(reason) for reason in AttentionReason} <= anchors(ROOT / "docs/troubleshooting.md")


def test_the_picture_fetches_nothing_and_names_no_host() -> None:
    text = (ROOT / "docs/images/run.svg").read_text(encoding="utf-8")
    assert re.findall(r"https?://[^\"']+", text) == ["http://www.w3.org/2000/svg"]
    assert "@font-face" not in text
    assert "on&#160;here" in text
    assert f"on&#160;{platform.node()}&#160;" not in text
