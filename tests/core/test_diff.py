"""Unified diffs: what git prints is read right, and nothing makes the reader fail in an unexpected way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conductor.core.diff import FileChange, first_place, parse_diff, unquote
from schemas.errors import BadInput
from tests.support.repos import git, make_repository


def staged(repository: Path, *options: str) -> tuple[FileChange, ...]:
    git(repository, "add", "--all")
    done = subprocess.run(
        ["git", "diff", "--cached", *options], cwd=repository, capture_output=True, check=True, timeout=60
    )
    return parse_diff(done.stdout.decode("utf-8", "replace"))


def only(changes: tuple[FileChange, ...]) -> FileChange:
    assert len(changes) == 1
    return changes[0]


NAMES = [
    "plain.py",
    "with blank.py",
    "ünï códe.py",
    'quo"te.py',
    "back\\slash.py",
    "tab\tname.py",
    "new\nline.py",
    "-dash.py",
    "a b/b/c d.py",
    "b/a/x.py",
    "日本/語.py",
    "#hash;semi.py",
    "trailing .py ",
]


@pytest.mark.parametrize("quote", ["on", "off"])
@pytest.mark.parametrize("name", NAMES)
def test_paths_come_out_as_they_are_on_disk(tmp_path: Path, name: str, quote: str) -> None:
    repository = make_repository(tmp_path)
    git(repository, "config", "core.quotepath", quote)
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("one\n", encoding="utf-8")
    change = only(staged(repository))
    assert (change.path, change.status, change.old_path) == (name, "added", None)
    git(repository, "commit", "-qm", "add")
    path.write_text("one\ntwo\n", encoding="utf-8")
    change = only(staged(repository))
    assert (change.path, change.status, set(change.changed_lines)) == (name, "modified", {2})
    git(repository, "commit", "-qm", "change")
    path.chmod(0o755)
    assert only(staged(repository)).path == name
    path.unlink()
    change = only(staged(repository))
    assert (change.path, change.status, change.removed) == (name, "deleted", ("one", "two"))


@pytest.mark.parametrize("old", ["a.py", "with blank.py", "ünï.py"])
@pytest.mark.parametrize("new", ["b/c.py", "other blank.py", 'quo"te.py'])
def test_renames_name_both_sides(tmp_path: Path, old: str, new: str) -> None:
    repository = make_repository(tmp_path)
    (repository / old).write_text("1\n2\n3\n4\n5\n6\n", encoding="utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "-qm", "add")
    (repository / new).parent.mkdir(exist_ok=True)
    git(repository, "mv", "--", old, new)
    change = only(staged(repository, "-M"))
    assert (change.path, change.old_path, change.status) == (new, old, "renamed")
    (repository / new).write_text("1\n2\n3\n4\n5\nsix\n", encoding="utf-8")
    change = only(staged(repository, "-M"))
    assert (change.path, change.old_path, set(change.changed_lines)) == (new, old, {6})


@pytest.mark.parametrize("options", [[], ["--no-prefix"], ["--src-prefix=i/", "--dst-prefix=w/"], ["-R"]])
def test_any_of_gits_prefixes_is_taken_off(tmp_path: Path, options: list[str]) -> None:
    repository = make_repository(tmp_path)
    (repository / "README.md").write_text("Other\n", encoding="utf-8")
    assert only(staged(repository, *options)).path == "README.md"


@pytest.mark.parametrize("options", [[], ["--binary"]])
def test_binary_files_are_known_as_such(tmp_path: Path, options: list[str]) -> None:
    repository = make_repository(tmp_path)
    (repository / "pic.bin").write_bytes(bytes(range(256)) * 20)
    (repository / "zz.txt").write_text("x\n", encoding="utf-8")
    binary, text = staged(repository, *options)
    assert (binary.path, binary.binary, binary.added) == ("pic.bin", True, ())
    assert (text.path, text.binary) == ("zz.txt", False)


def test_lines_that_look_like_headers_stay_lines(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    (repository / "q.sql").write_text("-- old\n++ plus\nkeep\n", encoding="utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "-qm", "add")
    (repository / "q.sql").write_text("keep\n++ b/evil.py\n@@ -1 +1 @@\n", encoding="utf-8")
    change = only(staged(repository))
    assert change.removed == ("-- old", "++ plus")
    assert [line.text for line in change.added] == ["++ b/evil.py", "@@ -1 +1 @@"]


def test_a_missing_last_newline_is_no_line(tmp_path: Path) -> None:
    repository = make_repository(tmp_path)
    (repository / "README.md").write_text("no end", encoding="utf-8")
    (repository / "z.py").write_text("x = 1\n", encoding="utf-8")
    readme, other = staged(repository)
    assert [line.text for line in readme.added] == ["no end"]
    assert other.path == "z.py"


def test_an_empty_diff_has_no_files() -> None:
    assert parse_diff("") == parse_diff("\n \n") == ()
    assert first_place(()) == ("(empty diff)", 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("garbage\n", "its line 1"),
        ("diff --cc a.py\n", "combined"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n", "ends inside a hunk"),
        ("--- a/x\n+++ b/x\n@@ nonsense @@\n", "not a hunk header"),
        ("@@ -1 +1 @@\n-a\n+b\n", "without the two file names"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n", "its line 5"),
        ("--- a/x\n+++ b/x\n@@ -1 +0 @@\n-a\n+b\n", "count from 1"),
        ("diff --git a/x b/x\nindex 1..2\nrubbish\n", "its line 3"),
        ("<html>not found</html>\n", "expected the start of a file"),
    ],
)
def test_what_is_no_diff_is_a_fault_that_says_where(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parse_diff(text)


LINES = st.lists(
    st.sampled_from(
        [
            *("diff --git a/x b/x", "--- a/x", "+++ b/x", "--- /dev/null", "@@ -1 +1 @@", "@@ -0,0 +1,2 @@"),
            *("+a", "-a", " a", "", "\\ No newline at end of file", "rename from y", "rename to z"),
            *("GIT binary patch", "new file mode 100644", 'diff --git "a/\\303" "b/\\303"', 'diff --git "a/x'),
            *("Binary files a/x and b/x differ", "@@ -1,99999999999 +1 @@", "--- a/x\t2024", "diff -u a b"),
        ]
    ),
    max_size=14,
)


@settings(max_examples=600, deadline=None)
@given(st.one_of(st.text(max_size=300), LINES.map("\n".join), st.tuples(LINES.map("\n".join), st.text()).map("".join)))
def test_no_text_at_all_makes_it_fail_otherwise(text: str) -> None:
    try:
        changes = parse_diff(text)
    except BadInput as caught:
        fault = caught
    else:
        assert all(change.path and all(line.number >= 1 for line in change.added) for change in changes)
        return
    assert "its line" in fault.what
    assert fault.hint


CONTENT = st.lists(
    st.sampled_from(["a", "b", "", "+x", "-y", "@@ -1 +1 @@", "\\ z", "e\r", "f\fg", "diff --git a/q b/q"])
)
NAME = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="/\0"), min_size=1, max_size=12
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 80)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAME, old=CONTENT, new=CONTENT, last=st.booleans())
def test_added_lines_are_the_lines_of_the_new_file(
    tmp_path: Path, name: str, old: list[str], new: list[str], last: bool
) -> None:
    before, after = "\n".join(old) + ("\n" if old else ""), "\n".join(new) + ("\n" if new and last else "")
    for folder, text in (("one", before), ("two", after)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(text.encode())
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", "--", "one", "two"],
        cwd=tmp_path, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    changes = parse_diff(done.stdout.decode("utf-8", "replace"))
    for folder in ("one", "two"):
        (tmp_path / folder / name).unlink()
    if before == after:
        assert changes == ()
        return
    change = only(changes)
    assert change.path == f"two/{name}"
    lines = after.split("\n")
    assert all(lines[added.number - 1].removesuffix("\r") == added.text for added in change.added)
    lines_after = after.count("\n") + (1 if after and not after.endswith("\n") else 0)
    assert before.count("\n") - len(change.removed) + len(change.added) == lines_after


@given(st.binary(max_size=30))
def test_quoted_names_never_fail(raw: bytes) -> None:
    assert isinstance(unquote('"' + raw.decode("latin-1") + '"'), str)
