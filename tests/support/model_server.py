"""A scripted stand-in for a model, speaking the Anthropic messages API on loopback.

Real agent programs are tested against it, so that no test needs a key or leaves the machine. A *script* is a
list of turns; each says which prompts it answers and what the model does, step by step:

    [{"when": "[msg 1]", "where": "wt-1",
      "steps": [{"read": "TASK.md"},
                {"write": ["a.py", "x = 1\\n"], "text": "Writing."},
                {"edit": ["a.py", "1", "2"]},
                {"bash": "git add -A && taskmaestro ship"},
                {"text": "Shipped.", "slow": 0.5},
                {"fail": 529, "times": 1}]}]

`when` is looked for in the prompt, `where` in all that the agent sends along (as its working directory).
The place in a turn follows from the conversation that comes back: one assistant message after the prompt is
one step played. Only standard library; by hand: `python tests/support/model_server.py SCRIPT.json`.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]
#: A step as data, or a function that makes one from what the agent sent (to quote a tool's output).
Step = Mapping[str, Any] | Callable[["Exchange"], Mapping[str, Any]]

#: Title, topic and memory calls carry fewer tools than this; they are answered, and play no step.
MAIN_CALL_TOOLS = 3
_STEP_WORDS = {"text", "bash", "read", "write", "edit", "tool", "input", "slow", "fail", "times", "headers"}
_REMINDER = re.compile(r"<(system-reminder|local-command-[a-z]+|command-[a-z]+)>.*?</\1>", re.DOTALL)
_NEWEST_PROMPT = re.compile(r"\n(?=\[msg )")
_WORKING_DIRECTORY = re.compile(r"[Ww]orking directory: (\S[^\n]*)")


@dataclass(frozen=True)
class Exchange:
    """One call to the messages endpoint, read for the script: the prompt being answered and what followed it.

    `step` counts assistant messages after the prompt, from 0; `results` has the tool results since.
    """

    prompt: str
    step: int
    results: tuple[str, ...]
    cwd: str
    session: str
    tools: tuple[str, ...]
    surroundings: str


@dataclass(frozen=True)
class Request:
    """One HTTP request as it came, in order; `kind` is `main`, `side` or `other` (anything but messages)."""

    method: str
    path: str
    kind: str
    body: Json
    headers: Mapping[str, str]
    exchange: Exchange | None = None


@dataclass(frozen=True)
class Reply:
    """What to send: content blocks after `delay` seconds, or an HTTP error where `status` is not 200."""

    blocks: tuple[Json, ...] = ()
    delay: float = 0.0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def stop_reason(self) -> str:
        return "tool_use" if any(block["type"] == "tool_use" for block in self.blocks) else "end_turn"


def _fresh_id(kind: str) -> str:
    """A new id: agents merge messages that share one."""
    return f"{kind}_{uuid.uuid4().hex}"


def _message(model: str) -> Json:
    return {"id": _fresh_id("msg"), "type": "message", "role": "assistant", "model": model}


class ScriptError(ValueError):
    """The script itself is wrong; the message names the turn and the word."""


def _texts(content: object) -> Iterator[tuple[str, str]]:
    """(block type, text) of a message's content, whatever shape it has; tool results are flattened."""
    if isinstance(content, str):
        yield "text", content
        return
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "tool_result":
            yield "tool_result", "\n".join(text for _, text in _texts(block.get("content")))
        elif isinstance(block.get("text"), str):
            yield "text", block["text"]


def read_exchange(body: Json) -> Exchange:
    """Find the prompt that is being answered and the place in its turn.

    The prompt is the newest user message with text of its own; reminders that the program adds are left out.
    A message with tool results belongs to the turn before it.
    """
    prompt, step = "", 0
    results: list[str] = []
    for message in body.get("messages", []):
        if message.get("role") == "assistant":
            step += 1
            continue
        if message.get("role") != "user":
            continue
        parts = list(_texts(message.get("content")))
        own = [t for t in (_REMINDER.sub("", text).strip() for kind, text in parts if kind == "text") if t]
        outputs = [text for kind, text in parts if kind == "tool_result"]
        if own and not outputs:
            # Prompts that went unanswered come again before the newest, in the same message.
            prompt, step, results = _NEWEST_PROMPT.split(own[-1])[-1], 0, []
        results.extend(outputs)
    system = "\n".join(text for _, text in _texts(body.get("system")))
    everything = [system, *(t for m in body.get("messages", []) for _, t in _texts(m.get("content")))]
    surroundings = "\n".join(everything)
    place = _WORKING_DIRECTORY.search(surroundings)
    return Exchange(
        prompt=prompt,
        step=step,
        results=tuple(results),
        cwd=place.group(1).strip() if place else "",
        session=str(body.get("metadata", {}).get("user_id", "")),
        tools=tuple(str(tool.get("name", "")) for tool in body.get("tools") or []),
        surroundings=surroundings,
    )


def _tool_call(step: Mapping[str, Any], cwd: str) -> tuple[str, Json] | None:
    """The tool that a step calls, and its input; the file tools ask for absolute paths."""

    def absolute(path: str) -> str:
        return str(Path(cwd or "/") / path)

    if "bash" in step:
        return "Bash", {"command": step["bash"], "description": "Scripted command"}
    if "read" in step:
        return "Read", {"file_path": absolute(step["read"])}
    if "write" in step:
        path, content = step["write"]
        return "Write", {"file_path": absolute(path), "content": content}
    if "edit" in step:
        path, old, new = step["edit"]
        return "Edit", {"file_path": absolute(path), "old_string": old, "new_string": new}
    if "tool" in step:
        return str(step["tool"]), dict(step.get("input", {}))
    return None


@dataclass
class Script:
    """The turns of the model, and how often each failing step has failed so far."""

    turns: Sequence[Mapping[str, Any]]
    _failed: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for number, turn in enumerate(self.turns):
            strange = set(turn) - {"when", "where", "steps"}
            for step in turn.get("steps", []):
                strange |= set() if callable(step) else set(step) - _STEP_WORDS
            if strange:
                raise ScriptError(f"turn {number} of the script: unknown words {', '.join(sorted(strange))}")

    def turn_for(self, exchange: Exchange) -> Mapping[str, Any] | None:
        """The first turn whose `when` is in the prompt and whose `where` is in what the agent sent along."""
        for turn in self.turns:
            if turn.get("when", "") in exchange.prompt and turn.get("where", "") in exchange.surroundings:
                return turn
        return None

    def play(self, exchange: Exchange) -> Reply:
        """The reply to one call. After the last step, and for a prompt that no turn names, the turn ends."""
        turn = self.turn_for(exchange)
        if turn is None:
            return Reply(({"type": "text", "text": "Nothing is scripted for this."},))
        answered = exchange.step
        for index, step in enumerate(turn.get("steps", [])):
            if not callable(step) and "fail" in step:
                # A failure leaves no message behind, so it is past once anything after it was answered.
                if answered == 0 and self._fails(exchange, index, step.get("times", sys.maxsize)):
                    return Reply(status=int(step["fail"]), headers=step.get("headers", {}))
            elif answered == 0:
                return self._answer(step(exchange) if callable(step) else step, exchange)
            else:
                answered -= 1
        return Reply(({"type": "text", "text": "Done."},))

    def _fails(self, exchange: Exchange, index: int, times: int) -> bool:
        """Whether a failing step fails once more; counted for each conversation and prompt."""
        key = (exchange.session, exchange.prompt, index)
        with self._lock:
            self._failed[key] += 1
            return self._failed[key] <= times

    @staticmethod
    def _answer(step: Mapping[str, Any], exchange: Exchange) -> Reply:
        blocks: list[Json] = []
        if step.get("text"):
            blocks.append({"type": "text", "text": step["text"]})
        call = _tool_call(step, exchange.cwd)
        if call is not None:
            name, given = call
            blocks.append({"type": "tool_use", "id": _fresh_id("toolu"), "name": name, "input": given})
        return Reply(tuple(blocks) or ({"type": "text", "text": "Done."},), delay=float(step.get("slow", 0)))


def _side_reply(body: Json) -> Reply:
    """Title, topic and memory calls want a short text, or JSON where they gave a schema."""
    text = "Scripted work"
    if "json_schema" in json.dumps(body.get("output_config", body.get("output_format", ""))):
        text = json.dumps({"title": text})
    return Reply(({"type": "text", "text": text},))


def _events(reply: Reply, model: str) -> Iterator[tuple[str, Json]]:
    """The server-sent events of one streamed answer, in the order that the API documents."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    message = {**_message(model), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield "message_start", {"message": message}
    for index, block in enumerate(reply.blocks):
        if block["type"] == "text":
            yield "content_block_start", {"index": index, "content_block": {"type": "text", "text": ""}}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            yield "content_block_start", {"index": index, "content_block": {**block, "input": {}}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    ending = {"stop_reason": reply.stop_reason, "stop_sequence": None}
    yield "message_delta", {"delta": ending, "usage": {"output_tokens": 10}}
    yield "message_stop", {}


class ModelServer:
    """The server, on a free loopback port; a context manager.  `requests` holds all that came, in order."""

    def __init__(self, turns: Sequence[Mapping[str, Any]] = (), port: int = 0) -> None:
        self.script = Script(turns)
        self._requests: list[Request] = []
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler_for(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def requests(self) -> tuple[Request, ...]:
        with self._lock:
            return tuple(self._requests)

    def main_calls(self, containing: str = "") -> tuple[Exchange, ...]:
        """The calls for prompts that hold `containing`; one submitted once has one call at step 0."""
        found = [request.exchange for request in self.requests if request.kind == "main"]
        return tuple(e for e in found if e is not None and containing in e.prompt)

    def prompts(self) -> tuple[str, ...]:
        """The prompts in order, one for each call that began a turn (a retried failure comes again)."""
        return tuple(exchange.prompt for exchange in self.main_calls() if exchange.step == 0)

    def record(self, request: Request) -> None:
        with self._lock:
            self._requests.append(request)

    def start(self) -> ModelServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def __enter__(self) -> ModelServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _handler_for(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    """The request handler, bound to its server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr: the tests read `requests`."""

        def _json(self, status: int, body: Json, headers: Mapping[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _take(self, body: Json) -> Request:
            path = self.path.partition("?")[0].rstrip("/")
            kind, exchange = "other", None
            if self.command == "POST" and path.endswith("/v1/messages"):
                exchange = read_exchange(body)
                kind = "main" if len(exchange.tools) >= MAIN_CALL_TOOLS else "side"
            request = Request(self.command, path, kind, body, dict(self.headers), exchange)
            server.record(request)
            return request

        def do_HEAD(self) -> None:
            self._take({})
            self._json(200, {})

        def do_GET(self) -> None:
            request = self._take({})
            known = request.path.endswith("/v1/models")
            self._json(200 if known else 404, {"data": [], "has_more": False} if known else _error(404))

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                body = json.loads(raw or b"{}")
            except ValueError:
                body = None
            if not isinstance(body, dict):
                self._json(400, _error(400))
                return
            request = self._take(body)
            if request.path.endswith("/count_tokens"):
                self._json(200, {"input_tokens": max(1, len(raw) // 4)})
            elif request.exchange is None:
                self._json(404, _error(404))
            else:
                main = request.kind == "main"
                self._send(server.script.play(request.exchange) if main else _side_reply(body), body)

        def _send(self, reply: Reply, body: Json) -> None:
            if reply.status != 200:
                self._json(reply.status, _error(reply.status), reply.headers)
                return
            try:
                self._stream(reply, body) if body.get("stream") else self._plain(reply, body)
            except (BrokenPipeError, ConnectionResetError):
                # The agent was stopped in the middle of an answer, which tests do on purpose.
                self.close_connection = True

        def _plain(self, reply: Reply, body: Json) -> None:
            server.closing.wait(reply.delay)
            usage = {"input_tokens": 10, "output_tokens": 10}
            ending = {"stop_reason": reply.stop_reason, "stop_sequence": None, "usage": usage}
            message = _message(str(body.get("model", "")))
            self._json(200, {**message, "content": list(reply.blocks), **ending})

        def _stream(self, reply: Reply, body: Json) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            until = time.monotonic() + reply.delay
            for name, event in _events(reply, str(body.get("model", ""))):
                self._event(name, event)
                while name == "message_start" and time.monotonic() < until and not server.closing.is_set():
                    # Pings keep a slow answer alive, as the real service does.
                    server.closing.wait(min(1.0, max(0.01, until - time.monotonic())))
                    self._event("ping", {})

        def _event(self, name: str, event: Json) -> None:
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **event})}\n\n".encode())
            self.wfile.flush()

    return Handler


def _error(status: int) -> Json:
    kinds = {400: "invalid_request", 404: "not_found", 429: "rate_limit", 529: "overloaded"}
    kind = kinds.get(status, "api")
    return {"type": "error", "error": {"type": f"{kind}_error", "message": f"scripted failure {status}"}}


def main(argv: Sequence[str]) -> int:
    """Serve one script file until interrupted; prints the base URL."""
    if len(argv) != 1:
        print("usage: model_server.py SCRIPT.json", file=sys.stderr)
        return 2
    with ModelServer(json.loads(Path(argv[0]).read_text(encoding="utf-8"))) as server:
        print(server.url, flush=True)
        try:
            server.closing.wait()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
