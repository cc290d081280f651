"""Parts of the github forge by themselves: URLs, markers, tokens, the program, the documents, the history of heads."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conductor.forge.github import marks, program, queries
from conductor.forge.github.history import heads_of
from conductor.forge.github.redact import HIDDEN, redacted, redacted_output
from conductor.forge.github.remote import named, parse_remote
from schemas.errors import BadInput, Unavailable
from tests.github import schema

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


# --- which repository ---


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("git@github.com:octo/shop.git", ("github.com", "octo", "shop")),
        ("git@github.com:octo/shop", ("github.com", "octo", "shop")),
        ("github.com:octo/shop.git", ("github.com", "octo", "shop")),
        ("git@github.com:/octo/shop.git", ("github.com", "octo", "shop")),
        ("https://github.com/octo/shop.git", ("github.com", "octo", "shop")),
        ("https://github.com/octo/shop/", ("github.com", "octo", "shop")),
        ("https://www.github.com/octo/shop", ("github.com", "octo", "shop")),
        ("https://someone:ghp_0123456789abcdef@github.com/octo/shop", ("github.com", "octo", "shop")),
        ("ssh://git@github.com/octo/shop.git", ("github.com", "octo", "shop")),
        ("ssh://git@ssh.github.com:443/octo/shop.git", ("github.com", "octo", "shop")),
        ("git@ssh.github.com:octo/shop.git", ("github.com", "octo", "shop")),
        ("git+ssh://git@github.com/octo/shop.git", ("github.com", "octo", "shop")),
        ("git@git.example.com:octo/shop.git", ("git.example.com", "octo", "shop")),
        ("https://GIT.Example.com/Octo/Shop.git", ("git.example.com", "Octo", "Shop")),
        ("ssh://git@git.example.com:7999/octo/shop.git", ("git.example.com", "octo", "shop")),
        ("https://github.com/octo/shop.js.git", ("github.com", "octo", "shop.js")),
        ("/srv/git/shop.git", None),
        ("../shop", None),
        ("file:///srv/git/shop.git", None),
        ("C:/shop", None),
        ("https://github.com/octo", None),
        ("https://github.com/octo/shop/tree/main", None),
        ("git@github.com:octo/shop.git; rm -rf /", None),
        ("https://-x/octo/shop", None),
    ],
)
def test_the_repository_is_read_off_the_remotes_url(url: str, place: tuple[str, str, str] | None) -> None:
    if place is None:
        with pytest.raises(BadInput, match="names no repository") as caught:
            parse_remote(url)
        assert "repository" in caught.value.hint
    else:
        assert parse_remote(url) == place


def test_a_name_may_begin_with_a_dot_and_an_owner_may_not() -> None:
    assert parse_remote("https://github.com/octo/.github").name == ".github"
    with pytest.raises(BadInput):
        parse_remote("https://github.com/.octo/shop")
    with pytest.raises(BadInput):
        parse_remote("https://github.com/octo/..")


def test_a_refused_url_is_shown_without_its_password() -> None:
    with pytest.raises(BadInput) as caught:
        parse_remote("https://me:hunter22@github.com/octo")
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("text", ["octo", "octo/", "/shop", "octo/shop/more", "-o/shop", "octo/sh op"])
def test_a_configured_repository_is_owner_and_name(text: str) -> None:
    with pytest.raises(BadInput, match="owner/name"):
        named(text, "github.com")


@pytest.mark.parametrize("host", ["https://git.example.com", "git.example.com/x", "", "-h", "a b"])
def test_a_configured_host_is_a_name(host: str) -> None:
    with pytest.raises(BadInput, match="host"):
        named("octo/shop", host)


# --- tokens ---


@pytest.mark.parametrize(
    "token",
    [
        "ghp_abcdefghij0123456789",
        "gho_16C7e42F292c6912E7710c838347Ae178B4a",
        "ghs_abcdefghij0123456789",
        "ghu_abcdefghij0123456789",
        "ghr_abcdefghij0123456789",
        "github_pat_11ABCDEFG0abcdefghij_ABCDEFGHIJ",
    ],
)
def test_what_looks_like_a_token_is_taken_out(token: str) -> None:
    for text in (f"bad {token}.", f"Authorization: token {token}", f"https://x:{token}@github.com/o/r", f"({token})"):
        assert token not in redacted(text, {})
        assert HIDDEN in redacted(text, {})


def test_the_value_of_a_token_variable_is_taken_out_whatever_it_looks_like() -> None:
    given = {"GH_TOKEN": "plain-secret", "GITHUB_TOKEN": "other-secret", "GH_ENTERPRISE_TOKEN": "x"}
    assert redacted("a plain-secret and other-secret in text", given) == f"a {HIDDEN} and {HIDDEN} in text"


@pytest.mark.parametrize(
    "text", ["Authorization: Basic c2VjcmV0c2Vj", "authorization=c2VjcmV0c2Vj", "https://me:c2VjcmV0c2Vj@x.y/"]
)
def test_what_programs_say_is_also_without_other_credentials(text: str) -> None:
    assert "c2VjcmV0c2Vj" not in redacted_output(text, {})


def test_other_words_stay() -> None:
    text = "ghp_ is a prefix; github_pat too; https://github.com/o/r; ghosts"
    assert redacted(text, {}) == text


# --- markers ---


@pytest.mark.parametrize("marker", ["", "<!-- taskmaestro review r-1 -->"])
def test_a_body_that_only_the_marker_makes_too_long_is_told_so(marker: str) -> None:
    kept = len(marks.marked("x", marker).body) - 1
    room = 65_536 - kept
    assert len(marks.marked("x" * room, marker).body) == 65_536
    for long in (room + 1, 65_536):
        with pytest.raises(BadInput, match=f"has {long} characters, more than {room}: .* hidden line") as caught:
            marks.marked("x" * long, marker)
        assert f"of the 65536 that fit, {kept} are needed" in caught.value.what
    with pytest.raises(BadInput, match=r"has 65537 characters, more than 65536\n"):
        marks.marked("x" * 65_537, marker)


def test_a_body_without_a_marker_is_given_one_that_nobody_reads() -> None:
    for body in ("text", "text\n", "- [ ] done\n\n", ""):
        text = marks.marked(body, "", empty=True)
        assert marks.stands_in(text.body, text.marker)
        assert marks.bare(text.body) == body
        assert marks.bare(text.body.replace("\n", "\r\n")) == body
    assert marks.marked("same", "").marker != marks.marked("same", "").marker


def test_a_marker_counts_on_a_line_of_its_own() -> None:
    marker = "<!-- m -->"
    assert marks.stands_in(f"text\n\n{marker}\n", marker)
    assert not marks.stands_in(f"> quoted {marker}", marker)
    assert not marks.stands_in("text", "")
    assert marks.marked(f"says {marker} in passing", marker).body.endswith(f"\n\n{marker}")
    assert marks.last_marker(f"text\n\n{marker}\n") == marker
    assert marks.last_marker("text") == ""


# --- the program ---


def gh(folder: Path, says: str, name: str = "gh") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_gh_that_is_too_old_is_refused_with_the_way_to_a_newer_one(tmp_path: Path) -> None:
    path = gh(tmp_path, "echo 'gh version 2.82.0 (2025-10-15)'")
    with pytest.raises(Unavailable, match=r"2\.82\.0; 2\.82\.1 or newer") as caught:
        program.find_gh(str(path))
    assert "taskmaestro-conductor[gh]" in caught.value.hint


def test_the_version_is_asked_once_for_each_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    path = gh(tmp_path, f"echo asked >>{log}; echo 'gh version 2.82.1 (2025-10-22)'")
    for _ in range(3):
        assert program.find_gh(None, {"PATH": str(tmp_path)}) == path
    assert log.read_text().count("asked") == 1
    gh(tmp_path, f"echo asked >>{log}; echo 'gh version 2.100.0 (2026-10-22)'")
    assert program.find_gh(str(path)) == path
    assert log.read_text().count("asked") == 2


def test_a_gh_on_path_that_is_too_old_gives_way_to_the_one_beside_this_python(tmp_path: Path) -> None:
    beside = Path(sys.executable).parent / "gh"
    if not beside.exists():
        pytest.skip("scripts/setup did not install gh beside this Python")
    old = tmp_path / "gh"
    old.write_text("#!/bin/sh\necho gh version 2.23.0\n", encoding="utf-8")
    old.chmod(0o755)
    assert program.find_gh(None, {"PATH": str(tmp_path)}) == beside
    with pytest.raises(Unavailable, match=r"2\.23\.0; 2\.82\.1 or newer"):
        program.find_gh(str(old))


def test_the_gh_beside_this_python_serves_where_path_has_none(tmp_path: Path) -> None:

    beside = Path(sys.executable).parent / "gh"
    if not beside.exists():
        pytest.skip("the test set-up puts gh elsewhere")
    assert program.find_gh(None, {"PATH": str(tmp_path)}) == beside


def test_a_missing_program_is_named_with_the_places_that_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(Unavailable, match="not found") as caught:
        program.find_gh(None, {"PATH": str(tmp_path)})
    assert "taskmaestro-conductor[gh]" in caught.value.hint
    with pytest.raises(BadInput, match="nowhere"):
        program.find_gh("/nowhere/gh")
    other = gh(tmp_path, "echo hello", name="other")
    with pytest.raises(Unavailable, match="does not say that it is gh: hello"):
        program.find_gh(str(other))


def test_nothing_heavy_is_loaded_before_the_forge_is_opened() -> None:
    import subprocess

    code = (
        "import sys; import conductor.cli.main; import conductor.forge; "
        "print([name for name in sys.modules if name.startswith('conductor.forge.github')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"


# --- the documents ---


@pytest.mark.skipif(not schema.available(), reason=schema.MISSING)
@pytest.mark.parametrize("name", sorted(queries.all_documents()))
def test_every_document_is_one_by_githubs_published_schema(name: str) -> None:
    import graphql

    document = graphql.parse(queries.all_documents()[name])
    rules = [rule for rule in graphql.specified_rules if rule.__name__ != "OverlappingFieldsCanBeMergedRule"]
    assert graphql.validate(schema.graphql_schema(), document, rules) == []


# --- the heads that a pull request had ---


def at(minute: int) -> str:
    return (NOW + timedelta(minutes=minute)).isoformat()


def commit(sha: str, minute: int) -> dict[str, Any]:
    return {"__typename": "PullRequestCommit", "commit": {"oid": sha * 40, "committedDate": at(minute)}}


def forced(before: tuple[str, int] | None, after: tuple[str, int] | None, minute: int) -> dict[str, Any]:
    ends = [None if one is None else {"oid": one[0] * 40, "committedDate": at(one[1])} for one in (before, after)]
    return {
        "__typename": "HeadRefForcePushedEvent",
        "createdAt": at(minute),
        "beforeCommit": ends[0],
        "afterCommit": ends[1],
    }


@pytest.mark.parametrize(
    ("nodes", "head", "heads"),
    [
        ([], "a", "a"),
        ([commit("a", 0)], "a", "a"),
        ([commit("a", 0), commit("b", 5)], "b", "ab"),
        # the API is behind: the remote has c already
        ([commit("a", 0), commit("b", 5)], "c", "abc"),
        # amended: the old head is known from the event alone
        ([commit("b", 4), forced(("a", 0), ("b", 4), 5)], "b", "ab"),
        # amended on top of an older head that is still there
        ([commit("a", 0), commit("c", 9), forced(("b", 3), ("c", 9), 10)], "c", "abc"),
        # rebased as a whole: the lower new commit never was a head
        ([commit("c", 8), commit("d", 9), forced(("b", 3), ("d", 9), 10)], "d", "bd"),
        # forced, then more was pushed
        ([commit("b", 4), forced(("a", 0), ("b", 4), 5), commit("c", 7)], "c", "abc"),
        # forced back to where it was
        ([commit("a", 0), forced(("a", 0), ("b", 4), 5), forced(("b", 4), ("a", 0), 6)], "a", "ba"),
        # GitHub lost the old commit
        ([commit("b", 4), forced(None, ("b", 4), 5)], "b", "b"),
    ],
)
def test_heads_are_told_oldest_first_and_end_with_the_one_now(
    nodes: list[dict[str, Any]], head: str, heads: str
) -> None:
    found = heads_of(nodes, head * 40, NOW + timedelta(hours=1))
    assert "".join(one.head[0] for one in found) == heads
    assert [one.at for one in found] == sorted(one.at for one in found)
