"""Keys and pastes come out the same however the terminal cuts the bytes, and scripts are checked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput
from worker.scripted.keys import Composer, Key, KeyReader
from worker.scripted.script import filled, parse_script
from worker.task import Task


def whole(reader: KeyReader, pieces: list[bytes]) -> list[Key]:
    """All keys, neighbouring texts joined (how they are cut does not matter)."""
    keys: list[Key] = []
    for piece in pieces:
        for key in reader.feed(piece):
            if key.name == "text" and keys and keys[-1].name == "text":
                keys[-1] = Key("text", keys[-1].text + key.text)
            else:
                keys.append(key)
    return keys


CHUNKS = st.lists(
    st.one_of(
        st.text(max_size=10).map(lambda text: text.encode("utf-8", "replace")),
        st.sampled_from(
            [
                b"\x1b[A",
                b"\x1b[200~",
                b"\x1b[201~",
                b"\r",
                b"\x15",
                b"\x1bOB",
                b"\x1b[1;5C",
                "é\u276f".encode(),
            ]
        ),
    ),
    max_size=12,
).map(b"".join)


@given(CHUNKS, st.integers(min_value=1, max_value=7))
@settings(max_examples=200, deadline=None)
def test_cutting_the_bytes_changes_nothing(data: bytes, size: int) -> None:
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert whole(KeyReader(), pieces) == whole(KeyReader(), [data])


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_bytes_break_the_reader_and_no_control_character_gets_through(data: bytes) -> None:
    for key in KeyReader().feed(data):
        assert all(char in "\n\t" or char >= " " for char in key.text)
        assert "\x1b" not in key.text


def test_a_paste_is_one_key_without_control_characters() -> None:
    keys = KeyReader().feed(b"\x1b[200~one\r\ntwo\x1b[31m\x07\rthree\x1b[201~\r")
    assert keys == [Key("paste", "one\ntwo[31m\nthree"), Key("enter")]


def test_an_escape_alone_is_a_key_after_a_while() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert reader.waiting
    assert reader.flush() == [Key("escape")]


def test_a_paste_of_several_lines_shows_a_placeholder_and_means_its_text() -> None:
    composer = Composer()
    composer.insert("see ")
    composer.paste("a\nb\nc\n")
    assert (composer.shown, composer.text) == ("see [Pasted text +2 lines]", "see a\nb\nc\n")
    composer.backspace()
    assert composer.text == "see "
    composer.paste("one line\n")
    assert composer.text == "see one line"


def test_turns_are_picked_by_task_and_used_once() -> None:
    script = parse_script(
        {
            "turns": [
                {"task": "fix", "cycle": 2, "steps": [{"say": "two"}]},
                {"task": "fix", "steps": [{"say": "any fix"}]},
                {"steps": [{"say": "else"}], "repeat": True},
            ]
        },
        "s",
    )
    fix = Task(task="1", kind="fix", cycle=1)
    assert script.pick(fix, set()) == 1
    assert script.pick(fix, {1}) == 2
    assert script.pick(fix, {1, 2}) == 2
    assert script.pick(Task(task="1", kind="fix", cycle=2), set()) == 0
    assert script.pick(None, set()) == 2


def test_names_of_the_task_are_filled_in() -> None:
    task = Task(task="1-1", kind="first", nonce="n", issue=7)
    assert filled({"a": ["{{nonce}}/{{issue}}{{pr}}", 3]}, task) == {"a": ["n/7", 3]}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ([], "expected a table"),
        ({"turn": []}, "'turn' is not known"),
        ({"options": {"trust": "yes"}}, r"options\.trust: expected a bool"),
        ({"turns": [{"task": "second"}]}, r"turns\[0\]\.task"),
        ({"turns": [{"steps": [{"sing": "x"}]}]}, r"turns\[0\]\.steps\[0\]: 'sing' is not a step"),
        ({"turns": [{"steps": [{"say": 1}]}]}, r"steps\[0\]\.say: cannot take 1"),
        ({"turns": [{"steps": [{"say": "a", "wait": 1}]}]}, "one key"),
    ],
)
def test_a_bad_script_is_refused_with_its_place(data: object, place: str) -> None:
    with pytest.raises(BadInput, match=place):
        parse_script(data, "s")
