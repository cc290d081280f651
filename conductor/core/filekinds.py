"""What a changed file is for, told from its path alone, and which of its new lines are logic.

Judged line by line, because a diff holds no whole file to parse; where it is unsure it answers "logic", so
that a missing test is rather reported than overlooked (review protocol: "when unsure, the higher one").
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from conductor.core.diff import AddedLine, FileChange


class FileKind(StrEnum):
    """What a file is for. Only ``source`` needs tests."""

    TEST = "test"
    SOURCE = "source"
    DOCS = "docs"
    CONFIG = "config"
    GENERATED = "generated"
    OTHER = "other"


_SLASHES = {
    "c",
    "h",
    "cc",
    "cpp",
    "cxx",
    "hpp",
    "hh",
    "cs",
    "java",
    "kt",
    "kts",
    "go",
    "rs",
    "js",
    "jsx",
    "ts",
    "tsx",
}
_SLASHES |= {
    "mjs",
    "cjs",
    "mts",
    "cts",
    "php",
    "swift",
    "scala",
    "dart",
    "vue",
    "svelte",
    "zig",
    "groovy",
    "m",
    "mm",
}
_HASHES = {"py", "pyi", "rb", "sh", "bash", "zsh", "pl", "pm", "r", "jl", "ex", "exs", "nim", "cr", "tcl"}
_DASHES = {"sql", "lua", "hs", "elm"}
_SEMICOLONS = {"clj", "cljs", "el", "lisp", "scm"}
_OTHERS = {"erl", "ml", "fs", "fsx", "vb", "f90"}
_SOURCE = _SLASHES | _HASHES | _DASHES | _SEMICOLONS | _OTHERS

_GENERATED = re.compile(
    r"(^|/)(node_modules|vendor|third_party|dist|__generated__|generated|migrations)/"
    r"|(_pb2(_grpc)?\.pyi?|\.pb\.go|\.min\.(js|css)|\.g\.dart|\.generated\.\w+|\.snap)$"
    r"|(^|/)(package-lock\.json|yarn\.lock|pnpm-lock\.yaml|poetry\.lock|uv\.lock|cargo\.lock|go\.sum|gemfile\.lock)$",
    re.IGNORECASE,
)
_TEST = re.compile(
    r"(^|/)(tests?|__tests__|specs?|e2e|testing|testdata|fixtures|__mocks__|src/\w*test\w*)/"
    r"|(^|/)(test_[^/]*\.\w+|conftest\.py|[^/]*_(test|spec|tests)\.\w+|[^/]*[.-](test|spec|cy)\.\w+)$"
    r"|(^|/)([A-Z]\w*(Tests?|Spec|IT)|Test[A-Z]\w*)\.(java|kt|kts|cs|scala|groovy|swift|php|m)$"
)
_DOCS = re.compile(
    r"\.(md|mdx|rst|txt|adoc|asciidoc|tex|html?|css|scss|less|svg|po|pot)$"
    r"|^(docs?|documentation|examples?)/"
    r"|(^|/)(license|licence|copying|notice|authors|changelog|codeowners|readme)[^/]*$",
    re.IGNORECASE,
)
_CONFIG = re.compile(
    r"\.(toml|ya?ml|json5?|jsonc|ini|cfg|conf|lock|xml|properties|env|gradle|cmake|nix|tf|plist|editorconfig)$"
    r"|(^|/)\.[^/]+$|(^|/)\.(github|gitlab|circleci|vscode|husky)/"
    r"|(^|/)(dockerfile|makefile|justfile|rakefile|gemfile|procfile|jenkinsfile|go\.mod|cmakelists\.txt)[^/]*$"
    r"|(^|/)(setup|conf|noxfile|tasks|fabfile|manage)\.py$|\.config\.[cm]?[jt]s$|\.d\.[cm]?ts$",
    re.IGNORECASE,
)

_FUNCTION = {
    "py": r"(?:async\s+)?def\s+(\w+)",
    "rb": r"def\s+([\w.?!]+)",
    "ex": r"defp?\s+([\w?!]+)",
    "go": r"func\s+(?:\([^)]*\)\s*)?(\w+)\s*[\[(]",
    "rs": r"(?:pub(?:\([^)]*\))?\s+)?(?:const\s+|async\s+|unsafe\s+|extern\s+\"[^\"]*\"\s+)*fn\s+(\w+)",
    "js": r"(?:export\s+)?(?:default\s+)?(?:async\s+)?function\s*\*?\s*(\w+)"
    r"|(?:export\s+)?(?:const|let|var)\s+(\w+)[^=]*=\s*(?:async\s*)?(?:function\b|\([^)]*\)[^=]*=>|\w+\s*=>)",
    "php": r"(?:(?:public|private|protected|static|final|abstract)\s+)*function\s+(\w+)",
    "swift": r"(?:\w+\s+)*func\s+(\w+)",
    "kt": r"(?:\w+\s+)*fun\s+(?:<[^>]*>\s*)?(?:\w+(?:<[^>]*>)?\.)?(\w+)",
    "lua": r"(?:local\s+)?function\s+([\w.:]+)",
    "sh": r"(?:function\s+)?([\w-]+)\s*\(\)",
    "java": r"(?:(?:public|private|protected|static|final|virtual|override|async|internal)\s+)+"
    r"[\w<>\[\],.? ]+\s+(\w+)\s*\(",
}
_LANGUAGE = {
    **dict.fromkeys(("jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"), "js"),
    **dict.fromkeys(("exs",), "ex"),
    **dict.fromkeys(("bash", "zsh"), "sh"),
    **dict.fromkeys(("cs", "scala", "dart", "groovy"), "java"),
    **dict.fromkeys(("kts",), "kt"),
}
_FUNCTIONS = {language: re.compile(rf"^\s*(?:{pattern})") for language, pattern in _FUNCTION.items()}

_NO_LOGIC = re.compile(
    r"^(?:"
    r"[\W_]*"  # closing brackets, separators
    r"|(?:from\s+[\w.]+\s+)?import\b.*|export\s+(?:\*|\{[^}]*\})\s+from\b.*|(?:use|using|package|namespace|include|require)\b.*"
    r"|#\s*(?:include|pragma|define\s+\w+\s*$).*|\}?\s*from\s+['\"].*|@\w[\w.]*"
    r"|(?:pass|else:?|try:?|finally:?|end|do|then|fi|done|begin|\.\.\.)\s*\{?"
    r"|(?:(?:export|const|let|var|final|static|public|private|val)\s+){0,4}(?:[A-Z][A-Z0-9_]*|__\w+__)"
    r"(?:\s*:\s*[\w\[\]., |<>?]+)?\s*=\s*"
    r"(?:[-+]?[\d_.]+|'[^']*'|\"[^\"]*\"|True|False|None|true|false|null|nil)[,;]?"  # a constant
    r"|(?!else|try|finally|default)\w+\s*:\s*[\w\[\]., |<>?]+[,;]?"  # a field and its type
    r"|['\"][^'\"]*['\"],?|\w+,"  # an item of a list
    r")$"
)
_LONGEST_LINE = 300
"""Characters of a line that the patterns look at: a longer one is not written by hand, and is logic."""
_INLINE_TEST = re.compile(r"^\s*(?:#\[(?:\w+::)?test\]|#\[cfg\(test\)\]|test\s+\"|>>> )")


def kind_of(path: str) -> FileKind:
    """What the file is for. Generated wins over test, test over documents, documents over configuration."""
    extension = _extension(path)
    if _GENERATED.search(path):
        return FileKind.GENERATED
    if _TEST.search(path):
        return FileKind.TEST
    if _DOCS.search(path):
        return FileKind.DOCS
    if _CONFIG.search(path):
        return FileKind.CONFIG
    return FileKind.SOURCE if extension in _SOURCE else FileKind.OTHER


def logic_lines(change: FileChange, moved: Counter[str] | None = None) -> tuple[AddedLine, ...]:
    """The new lines that are logic: no blanks, comments, doc strings, imports, brackets or plain constants.

    ``moved`` counts the texts of lines that the same diff removes elsewhere: a line that only moved is not
    new. It is used up as lines are matched.
    """
    if change.binary or kind_of(change.path) is not FileKind.SOURCE:
        return ()
    found = []
    for line in _without_comments(change.added, _extension(change.path)):
        text = line.text.strip()
        if moved is not None and moved[text] > 0:
            moved[text] -= 1
        elif len(text) > _LONGEST_LINE or not _NO_LOGIC.match(text):
            found.append(line)
    return tuple(found)


def added_functions(change: FileChange) -> tuple[tuple[int, str], ...]:
    """(line, name) of the functions whose first line is new and whose name the change does not also
    remove.
    """
    extension = _extension(change.path)
    pattern = _FUNCTIONS.get(_LANGUAGE.get(extension, extension))
    if pattern is None:
        return ()
    gone = {name for text in change.removed if (name := _function_name(pattern, text))}
    return tuple(
        (line.number, name)
        for line in change.added
        if (name := _function_name(pattern, line.text)) and name not in gone
    )


def adds_tests(change: FileChange) -> bool:
    """The change adds to a test file, or adds a test beside the code where the language keeps them there."""
    if change.status == "deleted" or not change.added:
        return False
    return kind_of(change.path) is FileKind.TEST or any(
        _INLINE_TEST.match(line.text[:_LONGEST_LINE]) for line in change.added
    )


def removed_texts(changes: Iterable[FileChange]) -> Counter[str]:
    """How often each line, without its indent, is removed in the whole diff."""
    return Counter(text.strip() for change in changes for text in change.removed if text.strip())


def _function_name(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.match(text[:_LONGEST_LINE])
    return next((group for group in found.groups() if group), "") if found else ""


def _extension(path: str) -> str:
    return posixpath.splitext(path)[1][1:].lower()


def _without_comments(lines: tuple[AddedLine, ...], extension: str) -> list[AddedLine]:
    kept = []
    closing = ""
    for line in lines:
        text = line.text.strip()
        if closing:
            closing = "" if closing in text else closing
            continue
        opened = _block_start(text, extension)
        if opened:
            closing = "" if opened in text[len(opened) :] else opened
        elif not text.startswith(_line_comments(extension)):
            kept.append(line)
    return kept


def _block_start(text: str, extension: str) -> str:
    """What ends the comment or doc string that begins this line; empty where none begins."""
    if extension in ("py", "pyi"):
        return next((quote for quote in ('"""', "'''") if text.lstrip("rRuUbB").startswith(quote)), "")
    if extension in _SLASHES and text.startswith("/*"):
        return "*/"
    return ""


def _line_comments(extension: str) -> tuple[str, ...]:
    if extension in _SLASHES:
        return ("//", "* ", "*/")
    if extension in _DASHES:
        return ("--",)
    if extension in _SEMICOLONS:
        return (";",)
    return ("#",)
