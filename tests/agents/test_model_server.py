"""The scripted model: it must play what the script says, or the tests with real agents mean nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.model_server import Exchange, ModelServer, ScriptError

TOOLS = [{"name": name} for name in ("Bash", "Read", "Write", "Edit")]
SYSTEM = "You are an agent.\n - Primary working directory: /srv/my tree\n - Platform: linux"


def connect(server: ModelServer) -> closing[HTTPConnection]:
    return closing(HTTPConnection("127.0.0.1", urlsplit(server.url).port or 0, timeout=10))


def post(server: ModelServer, body: bytes, path: str = "/v1/messages?beta=true") -> tuple[int, str, str | None]:
    """Status, text and retry-after header of one call."""
    with connect(server) as connection:
        connection.request("POST", path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.getheader("retry-after")


def body_of(messages: Sequence[Any], **more: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages, "tools": TOOLS, "system": SYSTEM, **more}).encode()


def ask(server: ModelServer, messages: Sequence[Any], **more: Any) -> dict[str, Any]:
    status, text, _ = post(server, body_of(messages, **more))
    assert status == 200
    answer: dict[str, Any] = json.loads(text)
    return answer


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def after_tool(call: Mapping[str, Any], output: str, *more: str) -> list[dict[str, Any]]:
    result = {"type": "tool_result", "tool_use_id": call["content"][-1]["id"], "content": output}
    said = [{"type": "text", "text": text} for text in more]
    return [{"role": "assistant", "content": call["content"]}, {"role": "user", "content": [result, *said]}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    turns = [
        {"when": "[msg 1]", "where": "/srv/my tree", "steps": [
            {"read": "TASK.md"},
            {"write": ["/tmp/a.py", "x"], "text": "Writing."},
            {"edit": ["a.py", "x", "y"]},
            {"bash": "git add -A"},
            lambda exchange: {"text": "It said " + exchange.results[-1]},
        ]},
        {"when": "[msg 2]", "steps": [
            {"fail": 529, "times": 2}, {"bash": "true"},
            {"fail": 429, "times": 1, "headers": {"retry-after": "7"}}, {"text": "through"},
        ]},
        {"when": "[msg 3]", "steps": [{"text": "three"}]},
    ]  # fmt: skip
    with ModelServer(turns) as running:
        yield running


def test_it_listens_on_loopback_only(server: ModelServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")


def test_a_turn_is_played_step_by_step(server: ModelServer) -> None:
    messages = [user("<system-reminder>[msg 3]</system-reminder>"), user("[msg 1] go [end 1]")]
    calls = []
    for output in ("task", "ok", "ok", "nothing to add"):
        answer = ask(server, messages)
        assert answer["stop_reason"] == "tool_use"
        calls.append((answer["content"][-1]["name"], answer["content"][-1]["input"]))
        messages += after_tool(answer, output, "<system-reminder>be brief</system-reminder>")
    assert calls[0] == ("Read", {"file_path": "/srv/my tree/TASK.md"})
    assert calls[1] == ("Write", {"file_path": "/tmp/a.py", "content": "x"})
    assert calls[2] == ("Edit", {"file_path": "/srv/my tree/a.py", "old_string": "x", "new_string": "y"})
    assert calls[3][1]["command"] == "git add -A"
    last = ask(server, messages)
    assert last["stop_reason"] == "end_turn"
    assert last["content"] == [{"type": "text", "text": "It said nothing to add"}]
    messages.append({"role": "assistant", "content": last["content"]})
    assert ask(server, messages)["content"][0]["text"] == "Done."
    assert server.prompts() == ("[msg 1] go [end 1]",)


def test_failures_come_as_often_as_told_and_where_told(server: ModelServer) -> None:
    messages = [user("[msg 2] go")]
    assert [post(server, body_of(messages))[0] for _ in range(2)] == [529, 529]
    messages += after_tool(ask(server, messages), "")
    status, _, retry_after = post(server, body_of(messages))
    assert (status, retry_after) == (429, "7")
    assert ask(server, messages)["content"][0]["text"] == "through"


def test_the_newest_of_several_unanswered_prompts_counts(server: ModelServer) -> None:
    assert ask(server, [user("[msg 2] go [end 2]\n[msg 3] go\nnow [end 3]")])["content"][0]["text"] == "three"
    assert server.prompts() == ("[msg 3] go\nnow [end 3]",)


def test_ids_are_never_used_twice(server: ModelServer) -> None:
    assert len({ask(server, [user("[msg 3]")])["id"] for _ in range(3)}) == 3


def test_a_turn_for_another_place_is_not_played(server: ModelServer) -> None:
    answer = ask(server, [user("[msg 1] go")], system="Primary working directory: /elsewhere")
    assert answer["content"][0]["text"] == "Nothing is scripted for this."


def test_side_calls_are_answered_and_play_no_step(server: ModelServer) -> None:
    assert ask(server, [user("[msg 3] title?")], tools=[])["content"][0]["text"] == "Scripted work"
    schema = {"format": {"type": "json_schema"}}
    titled = ask(server, [user("[msg 3] title?")], tools=[], output_config=schema)
    assert json.loads(titled["content"][0]["text"]) == {"title": "Scripted work"}
    assert server.prompts() == ()
    assert [request.kind for request in server.requests] == ["side", "side"]


def test_streaming_sends_the_same_as_events(server: ModelServer) -> None:
    _, text, _ = post(server, body_of([user("[msg 1]")], stream=True))
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    events = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]
    assert all(name == event["type"] for name, event in events)
    assert [name for name, _ in events if name != "ping"] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    deltas = [event["delta"] for name, event in events if name == "content_block_delta"]
    assert json.loads(deltas[0]["partial_json"]) == {"file_path": "/srv/my tree/TASK.md"}


def test_other_endpoints_answer(server: ModelServer) -> None:
    status, text, _ = post(server, body_of([]), "/v1/messages/count_tokens")
    assert (status, json.loads(text)["input_tokens"] > 0) == (200, True)
    assert post(server, b"{}", "/api/anything")[0] == 404
    assert post(server, b"{")[0] == 400


def test_stopping_does_not_wait_for_a_slow_answer() -> None:
    server = ModelServer([{"steps": [{"text": "late", "slow": 600}]}]).start()
    with connect(server) as connection:
        connection.request("POST", "/v1/messages", body_of([user("x")], stream=True))
        answer = connection.getresponse()
        assert answer.readline() == b"event: message_start\n"
        server.stop()
        assert b"message_stop" in answer.read()


def test_a_wrong_word_in_a_script_is_named() -> None:
    with pytest.raises(ScriptError, match=r"turn 0 .* bsh"):
        ModelServer([{"when": "x", "steps": [{"bsh": "true"}]}])


def test_a_step_can_be_a_function_of_the_exchange() -> None:
    seen: list[Exchange] = []

    def step(exchange: Exchange) -> Mapping[str, Any]:
        seen.append(exchange)
        return {"text": exchange.cwd}

    with ModelServer([{"steps": [step]}]) as server:
        assert ask(server, [user("hello")])["content"][0]["text"] == "/srv/my tree"
    assert (seen[0].prompt, seen[0].step) == ("hello", 0)
