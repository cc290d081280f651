"""What a path is for, and which added lines are logic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.diff import AddedLine, FileChange
from conductor.core.filekinds import (
    FileKind,
    added_functions,
    adds_tests,
    kind_of,
    logic_lines,
    removed_texts,
)


def change(path: str, *lines: str, removed: tuple[str, ...] = ()) -> FileChange:
    return FileChange(path, added=tuple(AddedLine(n, text) for n, text in enumerate(lines, 1)), removed=removed)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/app.py", "source"),
        ("app.ts", "source"),
        ("cmd/main.go", "source"),
        ("src/lib.rs", "source"),
        ("src/docs/render.py", "source"),
        ("contest.py", "source"),
        ("latest/attest.py", "source"),
        ("tests/test_app.py", "test"),
        ("pkg/thing_test.go", "test"),
        ("web/button.spec.tsx", "test"),
        ("src/__tests__/a.js", "test"),
        ("src/test/java/AppTest.java", "test"),
        ("lib/FooTests.cs", "test"),
        ("spec/models/user_spec.rb", "test"),
        ("conftest.py", "test"),
        ("README.md", "docs"),
        ("docs/conf.py", "docs"),
        ("LICENSE", "docs"),
        ("pyproject.toml", "config"),
        (".github/workflows/ci.yml", "config"),
        ("setup.py", "config"),
        ("vite.config.ts", "config"),
        ("types/api.d.ts", "config"),
        ("package-lock.json", "generated"),
        ("api/user_pb2.py", "generated"),
        ("vendor/x/y.go", "generated"),
        ("logo.png", "other"),
    ],
)
def test_paths_tell_what_a_file_is_for(path: str, kind: str) -> None:
    assert kind_of(path) is FileKind(kind)


def test_blanks_comments_docstrings_imports_and_constants_are_no_logic() -> None:
    module = change(
        "a.py", '"""Doc', "string", '"""', "", "# comment", "import os", "from x import (", ")", "LIMIT = 3",
        "name: str", "@dataclass", "pass", "    return LIMIT + 1", "count = 0",
    )  # fmt: skip
    assert [line.text for line in logic_lines(module)] == ["    return LIMIT + 1", "count = 0"]


def test_comments_of_other_languages_are_no_logic() -> None:
    script = change("a.ts", "// one", "/* two", " three */", "import x from 'y'", "}", "if (a) {", "  run()")
    assert [line.number for line in logic_lines(script)] == [6, 7]
    assert logic_lines(change("q.lua", "-- only words")) == ()


def test_lines_that_only_moved_are_no_new_logic() -> None:
    old = change("old.py", removed=("def run():", "    return go()"))
    new = change("new.py", "def run():", "    return go()", "    return go()")
    moved = removed_texts([old, new])
    assert [line.number for line in logic_lines(new, moved)] == [3]


@pytest.mark.parametrize(
    ("path", "line", "name"),
    [
        ("a.py", "    async def fetch(self):", "fetch"),
        ("a.go", "func (s *Server) Run(ctx C) {", "Run"),
        ("a.rs", "pub(crate) async fn go<T>() {", "go"),
        ("a.ts", "export const load = async (id: string) => {", "load"),
        ("a.js", "export default function main() {", "main"),
        ("A.java", "    public static List<String> names() {", "names"),
        ("a.rb", "  def valid?", "valid?"),
        ("a.kt", "suspend fun <T> Flow<T>.collect() {", "collect"),
        ("a.sh", "setup() {", "setup"),
    ],
)
def test_functions_are_recognised(path: str, line: str, name: str) -> None:
    assert [found for _, found in added_functions(change(path, line))] == ([name] if name else [])


def test_a_changed_signature_is_no_new_function() -> None:
    assert added_functions(change("a.py", "def f(a, b):", removed=("def f(a):",))) == ()


def test_tests_beside_the_code_count_as_tests() -> None:
    assert adds_tests(change("src/lib.rs", "    #[test]", "    fn works() {"))
    assert adds_tests(change("tests/test_a.py", "def test_a():"))
    assert not adds_tests(change("src/lib.rs", "fn works() {"))
    assert not adds_tests(FileChange("tests/test_a.py", status="deleted", removed=("x",)))


@given(st.text(max_size=400), st.sampled_from(["a.py", "a.ts", "a.java", "a.kt", "a.go", "a.sql"]))
def test_no_line_makes_it_fail(text: str, path: str) -> None:
    one = change(path, text, text * 50)
    assert set(logic_lines(one)) <= set(one.added)
    added_functions(one)
    adds_tests(one)


@pytest.mark.timeout(10)
def test_hostile_long_lines_cost_little() -> None:
    for text in ("a " * 200_000, "public " * 100_000, "a." * 300_000, "x: " + "|" * 500_000, "((" * 300_000):
        for path in ("a.py", "a.java", "a.kt", "a.js"):
            logic_lines(change(path, text))
            added_functions(change(path, text))
