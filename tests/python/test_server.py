"""The server's protocol, queue and safety, with a scripted core, over real HTTP."""

import gc
import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError

import fake_core
import swiftlet
from http_server import serving, wait_until
from swiftlet.grammar import BYTES_PER_TOKEN
from swiftlet.server import requests
from swiftlet.server.chat_schema import ChatRequest
from swiftlet.server.queue import QueueFull, TurnQueue

IM_END = 450


@pytest.fixture
def core(monkeypatch):
    """The scripted core's class, to be set up by the test."""
    monkeypatch.setattr(swiftlet._core, "Engine", fake_core.FakeEngine)
    monkeypatch.setattr(swiftlet._core, "check_container", lambda path: None)
    monkeypatch.setattr(fake_core.FakeEngine, "context", 4096)
    for name in ("script", "fail_at", "failure", "layers", "pause"):
        monkeypatch.setattr(fake_core.FakeEngine, name, fake_core.FakeEngine.__dict__[name])
    return fake_core.FakeEngine


@pytest.fixture
def engine(core, next_folder):
    (next_folder / "manifest.json").write_text("{}")
    with swiftlet.Engine(next_folder) as engine:
        yield engine


def say(engine, text):
    """What the model answers from now on."""
    engine._model.script = [*engine.tokenizer.encode(text), IM_END]


class Hold:
    """Stops the core in a phase until it is let go."""

    def __init__(self, core, phase):
        self.reached, self.go = threading.Event(), threading.Event()
        self.asked = 0

        def pause(now):
            if now == phase:
                self.asked += 1
                self.reached.set()
                self.go.wait(20)

        core.pause = staticmethod(pause)


def connect(address):
    parts = urlsplit(address)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)


def request(address, path, body=None, method=None, **headers):
    """Status, headers and body of a request."""
    with closing(connect(address)) as connection:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method or ("GET" if body is None else "POST"), path, data, names)
        response = connection.getresponse()
        return response.status, response.headers, response.read()


CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
HI = [{"role": "user", "content": "Hi"}]


def chat(address, **options):
    status, _, body = request(address, CHAT, {"model": "demo", "messages": HI, **options})
    assert status == 200, body
    return json.loads(body)


def stream(address, path=CHAT, **options):
    """The events of a stream, and its comments."""
    status, headers, body = request(address, path, {"model": "demo", "messages": HI, "stream": True, **options})
    assert status == 200, body
    assert headers["content-type"].startswith("text/event-stream")
    lines = body.decode().split("\n")
    return [line[6:] for line in lines if line.startswith("data: ")], [
        line[2:] for line in lines if line.startswith(": ")
    ]


def gather(events):
    """Content, thoughts, calls and finish reason of a stream of chat chunks, checked for form."""
    assert events[-1] == "[DONE]" and events.count("[DONE]") == 1
    content, thoughts, calls, finish = "", "", [], []
    for chunk in map(json.loads, events[:-1]):
        for choice in chunk["choices"]:
            delta = choice["delta"]
            content += delta.get("content") or ""
            thoughts += delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    assert call["index"] == len(calls) and call["function"]["arguments"] == ""
                    calls.append([call["function"]["name"], ""])
                calls[call["index"]][1] += call["function"]["arguments"]
            finish += [choice["finish_reason"]] if choice["finish_reason"] else []
    assert len(finish) == 1
    return content, thoughts, [(name, json.loads(arguments)) for name, arguments in calls], finish[0]


def both(address, **options):
    """The same answer whole and streamed, which must be equal."""
    choice = chat(address, **options)["choices"][0]
    message = choice["message"]
    calls = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls", [])]
    whole = message["content"] or "", message.get("reasoning_content", ""), calls, choice["finish_reason"]
    assert gather(stream(address, **options)[0]) == whole
    return whole


# Answers


@pytest.mark.parametrize("text", ["Hello 👩‍👩‍👧 漢字 é\n", "", " spaces  kept ", "a < b </think> c"])
def test_text_arrives_as_it_is(engine, text):
    say(engine, text)
    with serving(engine) as address:
        assert both(address) == (text, "", [], "stop")


def test_stop_strings_never_leak(engine):
    say(engine, "One two, three. Four!")
    with serving(engine) as address:
        for stop in ("o, th", ["zzz", ". Fo", "our"], "One", ["!", "x!"]):
            content, _, _, finish = both(address, stop=stop)
            first = stop if isinstance(stop, str) else next(s for s in stop if s in "One two, three. Four!")
            assert (content, finish) == ("One two, three. Four!".split(first)[0], "stop")


def test_max_tokens(engine):
    say(engine, "Hello, world!")
    with serving(engine) as address:
        assert both(address, max_tokens=2)[3] == "length"
        assert chat(address, max_tokens=2)["usage"]["completion_tokens"] == 2


def test_thoughts(engine):
    say(engine, "Hm, <think> so\n</think>\n\nHello")
    with serving(engine) as address:
        thinking = {"chat_template_kwargs": {"enable_thinking": True}}
        assert both(address, **thinking) == ("Hello", "Hm, <think> so", [], "stop")
        assert both(address, **thinking, max_tokens=4)[::3] == ("", "length")
        assert both(address)[0] == "Hm, <think> so\n</think>\n\nHello"


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"properties": {"n": {"type": "integer"}}}}}
    for name in ("weather", "now")
]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"n": "5"}}\n</tool_call>'


def test_calls(engine):
    say(engine, f"Let me see.\n{CALL}\n{CALL.replace('weather', 'now')}")
    with serving(engine) as address:
        calls = [("weather", {"n": 5}), ("now", {"n": 5})]
        assert both(address, tools=TOOLS) == ("Let me see.", "", calls, "tool_calls")
        assert both(address, tools=TOOLS, parallel_tool_calls=False) == ("Let me see.", "", calls[:1], "tool_calls")
        assert both(address, tools=TOOLS, tool_choice="none")[2] == []
        assert chat(address, tools=TOOLS)["choices"][0]["message"]["content"] == "Let me see."
    say(engine, CALL)
    with serving(engine) as address:
        assert chat(address, tools=TOOLS)["choices"][0]["message"]["content"] is None
        content, _, calls, finish = both(address, tools=TOOLS, max_tokens=len(engine.tokenizer.encode(CALL)) - 8)
        assert finish == "length" and (content or calls)


def test_a_stop_string_inside_a_call(engine):
    parameters = "<parameter=n>\n5\n</parameter>\n<parameter=city>\nParis, France\n</parameter>\n"
    say(engine, f"<tool_call>\n<function=weather>\n{parameters}</function>\n</tool_call>")
    with serving(engine) as address:
        assert both(address, tools=TOOLS, stop="France")[2] == [("weather", {"n": 5})]


def test_a_call_that_is_cut_before_it_has_a_name(engine):
    call = CALL.replace('"5"', "5")
    say(engine, call)
    ids = engine.tokenizer.encode(call)
    with serving(engine) as address:
        for choice in ("required", "auto"):
            for count in range(1, len(ids), 3):
                content, _, calls, finish = both(address, tools=TOOLS, tool_choice=choice, max_tokens=count)
                assert (content, finish) == ("", "length")
                assert bool(calls) == ('"weather"' in engine.tokenizer.decode(ids[:count]))
        body = {"model": "demo", "messages": HI, "max_tokens": 3, "tool_choice": {"type": "any"},
                "tools": [{"name": "weather", "input_schema": {"properties": {"n": {"type": "integer"}}}}]}  # fmt: skip
        message = json.loads(request(address, MESSAGES, body)[2])
        assert (message["content"], message["stop_reason"]) == ([], "max_tokens")


def test_calls_as_events_of_a_response(engine):
    patch = '<tool_call>\n{"name": "patch", "arguments": {"input": "+ a\\n- b"}}\n</tool_call>'
    say(engine, f"Let me see.\n{CALL}\n{patch}")
    function = {"type": "function", "name": "weather", "parameters": TOOLS[0]["function"]["parameters"]}
    tools = [function, {"type": "custom", "name": "patch"}, {"type": "web_search"}]
    with serving(engine) as address:
        events = [json.loads(data) for data in stream(address, RESPONSES, input="Hi", tools=tools)[0]]
    kinds = [event["type"] for event in events]
    assert kinds.count("response.completed") == 1 and kinds[-1] == "response.completed"
    opened = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    closed = [event["item"]["id"] for event in events if event["type"] == "response.output_item.done"]
    output = events[-1]["response"]["output"]
    assert opened == closed == [item["id"] for item in output]
    message, call, custom = output
    assert message["content"][0]["text"] == "Let me see."
    assert (call["type"], call["name"], json.loads(call["arguments"])) == ("function_call", "weather", {"n": 5})
    assert (custom["type"], custom["name"], custom["input"]) == ("custom_tool_call", "patch", "+ a\n- b")
    deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert "".join(deltas) == call["arguments"]


def test_calls_as_blocks_of_a_message(engine):
    say(engine, f"Let me see.\n{CALL}\n{CALL.replace('weather', 'now')}")
    tools = [{"name": name, "input_schema": TOOLS[0]["function"]["parameters"]} for name in ("weather", "now")]
    with serving(engine) as address:
        events = [json.loads(data) for data in stream(address, MESSAGES, max_tokens=500, tools=tools)[0]]
        body = {"model": "demo", "messages": HI, "max_tokens": 500, "tools": tools}
        whole = json.loads(request(address, MESSAGES, body)[2])
    blocks = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [event["index"] for event in events if event["type"] == "content_block_stop"] == [0, 1, 2]
    assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_use"]
    assert [block.get("input") for block in whole["content"]] == [None, {"n": 5}, {"n": 5}]
    pieces = [event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta"]
    assert "".join(pieces) == '{"n": 5}{"n": 5}'
    assert whole["stop_reason"] == events[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_strict_tool_is_enforced_when_it_is_called(engine):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    function = {"name": "weather", "parameters": schema, "strict": True}
    openai = [{"type": "function", "function": function}, TOOLS[1]]
    messages = [{"name": "weather", "input_schema": schema, "strict": True}]
    responses = [{"type": "function", **function}]
    with serving(engine) as address:
        say(engine, f"Let me see.\n{CALL.replace('weather', 'now')}")
        assert both(address, tools=openai)[2] == [("now", {"n": 5})]
        say(engine, CALL.replace('"5"', "5"))
        assert both(address, tools=openai)[2] == [("weather", {"n": 5})]
        say(engine, CALL)  # the core does not do as the mask says
        for path, options in [
            (CHAT, {"tools": openai}),
            (MESSAGES, {"tools": messages, "max_tokens": 99}),
            (RESPONSES, {"tools": responses, "input": "Hi"}),
        ]:
            status, _, body = request(address, path, {"model": "demo", "messages": HI, **options})
            assert status == 400 and b"the grammar cannot go on" in body
        assert both(address, tools=openai, tool_choice="none")[2] == []
        openai[0] = {"type": "function", "function": {**function, "parameters": {"type": "nothing"}}}
        status, _, body = request(address, CHAT, {"model": "demo", "messages": HI, "tools": openai})
        assert status == 400 and b"cannot be enforced" in body


def test_memory_for_grammars_comes_out_of_the_ceiling(engine):
    say(engine, '{"a": [1, true]}')
    with serving(engine) as address:
        assert both(address, response_format={"type": "json_object"})[0] == '{"a": [1, true]}'
        assert engine._model.memory == 4 * 10**9 - BYTES_PER_TOKEN * fake_core.VOCAB
        say(engine, "Hello")  # the core does not do as the mask says
        events, _ = stream(address, response_format={"type": "json_object"})
        assert "the grammar cannot go on" in json.loads(events[-1])["error"]["message"]


def test_the_repetition_penalty_has_two_names(engine):
    say(engine, "Hello")
    with serving(engine) as address:
        for name in ("repetition_penalty", "repeat_penalty"):
            chat(address, **{name: 1.25})
            assert engine._model.params.repetition_penalty == 1.25
            assert request(address, CHAT, {"model": "demo", "messages": HI, name: 0})[0] == 400


def test_text_completions_are_plain_text(engine):
    say(engine, "<think>x</think> y")
    with serving(engine) as address:
        body = {"model": "demo", "prompt": ["Once"], "max_tokens": 50}
        assert json.loads(request(address, "/v1/completions", body)[2])["choices"][0]["text"] == "<think>x</think> y"
        body = {"model": "demo", "prompt": [1, 2], "max_tokens": 50, "stream": True}
        assert request(address, "/v1/completions", body)[2].endswith(b'"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')


def test_an_answer_that_fails(engine):
    say(engine, "Hello, world!")
    with serving(engine) as address:
        engine._model.fail_at = 3
        events, _ = stream(address)
        assert "the read failed" in json.loads(events[-1])["error"]["message"]
        assert '"type":"error"' in stream(address, MESSAGES, max_tokens=9)[0][-1]
        assert "response.failed" in stream(address, RESPONSES, input="Hi")[0][-1]
        status, _, body = request(address, CHAT, {"model": "demo", "messages": HI})
        assert status == 500 and json.loads(body)["error"]["type"] == "server_error"
        engine._model.fail_at = -1
        assert chat(address)["choices"][0]["message"]["content"] == "Hello, world!"


def test_the_thread_that_answers_survives_a_panic(engine):
    class Panic(BaseException):  # as pyo3's PanicException is none of Exception
        pass

    say(engine, "Hello, world!")
    with serving(engine) as address:
        engine._model.fail_at, engine._model.failure = 3, Panic("of Hello")
        status, _, body = request(address, CHAT, {"model": "demo", "messages": HI})
        assert status == 500 and b"not the request's" in body
        engine._model.fail_at = -1
        assert chat(address)["choices"][0]["message"]["content"] == "Hello, world!"


def test_several_system_messages(engine):
    say(engine, "Yes")
    turns = [{"role": "system", "content": "A"}, {"role": "developer", "content": [{"type": "text", "text": "B"}]},
             *HI, {"role": "system", "content": "C"}]  # fmt: skip
    with serving(engine) as address:
        expected = engine.encode([{"role": "system", "content": "A\n\nB"}, *HI, {"role": "user", "content": "C"}])
        assert chat(address, messages=turns)["usage"]["prompt_tokens"] == len(expected)


# The queue


def test_turns_go_round():
    order, gate, begun = [], threading.Event(), threading.Event()

    class Item:
        def __init__(self, client, name):
            self.client, self.name = client, name

    def work(item):
        begun.set()
        gate.wait(10)
        order.append(item.name)

    queue = TurnQueue(work, max_waiting=5, max_waiting_each=3)
    queue.put(Item("a", "a0"))
    assert begun.wait(10)
    items = {name: Item(name[0], name) for name in ("a1", "a2", "a3", "b1", "c1")}
    for name in ("a1", "a2", "a3", "b1"):
        queue.put(items[name])
    with pytest.raises(QueueFull) as caught:
        queue.put(Item("a", "a4"))
    assert caught.value.own
    queue.put(items["c1"])
    with pytest.raises(QueueFull) as caught:
        queue.put(Item("d", "d1"))
    assert not caught.value.own
    queue.discard(items["a2"])
    queue.discard(items["a2"])
    assert (queue.waiting, queue.running, queue.ahead(items["a1"])) == (4, 1, 1)
    gate.set()
    wait_until(lambda: not queue.waiting and not queue.running)
    queue.close()
    assert order == ["a0", "a1", "b1", "c1", "a3"]


def test_a_full_queue(engine, core):
    say(engine, "Hello")
    hold = Hold(core, "prefill")
    with serving(engine, max_waiting=2) as address, ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(chat, address)]
        assert hold.reached.wait(10)
        waiting += [pool.submit(chat, address) for _ in range(2)]
        wait_until(lambda: json.loads(request(address, "/stats")[2])["waiting"] == 2)
        status, headers, body = request(address, CHAT, {"model": "demo", "messages": HI})
        assert status == 503 and int(headers["Retry-After"]) >= 1
        assert json.loads(body)["error"]["code"] == "queue_full"
        status, headers, body = request(address, MESSAGES, {"model": "demo", "messages": HI, "max_tokens": 1})
        assert status == 503 and json.loads(body)["error"]["type"] == "overloaded_error"
        hold.go.set()
        assert [job.result()["choices"][0]["message"]["content"] for job in waiting] == ["Hello"] * 3


def test_a_full_queue_refuses_before_it_reads(engine, core, monkeypatch):
    say(engine, "Hello")
    hold = Hold(core, "prefill")
    parse, parsed = requests._parse, []
    monkeypatch.setattr(requests, "_parse", lambda body, model: parsed.append(model) or parse(body, model))
    with serving(engine, max_waiting=0, max_body=50_000_000) as address, ThreadPoolExecutor(1) as pool:
        first = pool.submit(chat, address)
        assert hold.reached.wait(10)
        for path in (CHAT, MESSAGES, RESPONSES, "/v1/completions"):
            with closing(connect(address)) as connection:
                connection.putrequest("POST", path)
                connection.putheader("Content-Length", "40000000")
                connection.endheaders(b'{"model": "demo", ')  # the rest never comes
                response = connection.getresponse()
                assert response.status == 503 and int(response.headers["Retry-After"]) >= 1
        # Who sends everything before listening gets it too, and can go on with the same connection.
        with closing(connect(address)) as connection:
            connection.request("POST", CHAT, b"x" * 40_000_000)
            response = connection.getresponse()
            assert response.status == 503 and json.loads(response.read())["error"]["code"] == "queue_full"
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
        assert len(parsed) == 1
        # What is too large will be so later too, and what needs no turn is answered.
        with closing(connect(address)) as connection:
            connection.putrequest("POST", CHAT)
            connection.putheader("Content-Length", "60000000")
            connection.endheaders()
            assert connection.getresponse().status == 413
        assert request(address, f"{MESSAGES}/count_tokens", {"model": "demo", "messages": HI})[0] == 200
        hold.go.set()
        assert first.result()["choices"][0]["message"]["content"] == "Hello"


def test_signs_of_life(engine, core):
    say(engine, "Hello")
    hold = Hold(core, "prefill")
    with serving(engine, keepalive_seconds=0.05) as address, ThreadPoolExecutor(3) as pool:
        first = pool.submit(stream, address)
        assert hold.reached.wait(10)
        second = pool.submit(stream, address)
        wait_until(lambda: json.loads(request(address, "/stats")[2])["waiting"] == 1)
        third = pool.submit(stream, address, MESSAGES, max_tokens=9)
        wait_until(lambda: json.loads(request(address, "/stats")[2])["waiting"] == 2)
        time.sleep(0.5)
        hold.go.set()
        comments = first.result()[1]
        assert any(comment.startswith("prefill, 0 of ") for comment in comments)
        assert "waiting, 1 ahead" in second.result()[1]
        assert '{"type":"ping"}' in third.result()[0]
        assert gather(first.result()[0])[0] == gather(second.result()[0])[0] == "Hello"


def leave_after(address, path, body, event):
    """Sends a request and closes the connection once the event has come."""
    connection = connect(address)
    connection.request("POST", path, json.dumps(body))
    assert event.wait(10)
    connection.close()


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_client_that_leaves_frees_its_place(engine, core, phase, streams):
    core.layers = 10_000 if phase == "prefill" else 4
    engine._model.script = engine.tokenizer.encode("Hello ") * 10_000
    reached = threading.Event()
    steps = {"prefill": 0, "decode": 0}

    def pause(now):
        steps[now] += 1
        if now == phase:
            reached.set()
            time.sleep(0.005)

    with serving(engine) as address:
        core.pause = staticmethod(pause)
        leave_after(address, CHAT, {"model": "demo", "messages": HI, "stream": streams, "max_tokens": 4000}, reached)
        wait_until(lambda: json.loads(request(address, "/stats")[2])["running"] == 0)
        assert steps[phase] < 2000  # of 10,000
        core.layers = 4
        core.pause = staticmethod(lambda now: None)
        say(engine, "Still here")
        assert chat(address)["choices"][0]["message"]["content"] == "Still here"
        assert b"swiftlet_left_total 1.0" in request(address, "/metrics")[2]


def test_leaving_the_queue(engine, core):
    say(engine, "Hello")
    hold = Hold(core, "prefill")
    with serving(engine) as address, ThreadPoolExecutor(1) as pool:
        first = pool.submit(chat, address)
        assert hold.reached.wait(10)
        queued = threading.Event()
        thread = threading.Thread(target=leave_after, args=(address, CHAT, {"model": "demo", "messages": HI}, queued))
        thread.start()
        wait_until(lambda: json.loads(request(address, "/stats")[2])["waiting"] == 1)
        queued.set()
        thread.join()
        wait_until(lambda: json.loads(request(address, "/stats")[2])["waiting"] == 0)
        hold.go.set()
        first.result()
        assert hold.asked == core.layers  # the second one was never begun


def test_a_slow_reader_does_not_hold_up_others(engine):
    engine._model.script = engine.tokenizer.encode("word ") * 3000
    with serving(engine) as address:
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname, parts.port)) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = json.dumps({"model": "demo", "messages": HI, "stream": True, "max_tokens": 4000}).encode()
            slow.sendall(
                b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                % (CHAT.encode(), len(body), body)
            )
            wait_until(lambda: json.loads(request(address, "/stats")[2])["running"])
            assert chat(address, max_tokens=5)["usage"]["completion_tokens"] == 5
            slow.shutdown(socket.SHUT_RDWR)


# Safety


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:80"}, 200),
        ({"Host": "127.0.0.1"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "192.168.1.7"}, 200),
        ({"Host": "models.example"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "localhost", "Origin": "http://localhost"}, 200),
        ({"Host": "localhost", "Origin": "https://localhost"}, 403),
        ({"Host": "localhost", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost", "Origin": "null"}, 403),
        ({"Host": "localhost", "Origin": "https://chat.example"}, 200),
    ],
)
def test_host_and_origin(engine, headers, status):
    with serving(engine, allowed_hosts=("Models.example",), cors_origins=("https://chat.example",)) as address:
        assert request(address, "/v1/models", **headers)[0] == status


def test_cors_only_where_allowed(engine):
    ask = {"Origin": "https://chat.example", "Access_Control_Request_Method": "POST",
           "Access_Control_Request_Headers": "authorization"}  # fmt: skip
    with serving(engine) as address:
        status, headers, _ = request(address, CHAT, method="OPTIONS", **ask)
        assert status == 403 and "access-control-allow-origin" not in headers
    with serving(engine, cors_origins=("https://chat.example",), api_keys=("k",)) as address:
        status, headers, _ = request(address, CHAT, method="OPTIONS", **ask)
        assert status == 200 and headers["access-control-allow-origin"] == "https://chat.example"


def test_keys(engine):
    say(engine, "Hello")
    with serving(engine, api_keys=("first", "schlüssel")) as address:
        for path in ("/v1/models", "/metrics", "/stats"):
            assert request(address, path)[0] == 401
        status, headers, body = request(address, "/v1/models", Authorization="Bearer wrong")
        assert status == 401 and headers["WWW-Authenticate"] == "Bearer"
        assert json.loads(body)["error"]["code"] == "invalid_api_key"
        body = request(address, MESSAGES, {}, x_api_key="wrong")[2]
        assert json.loads(body)["error"]["type"] == "authentication_error"
        assert request(address, "/v1/models", Authorization="Bearer first")[0] == 200
        assert request(address, "/v1/models", x_api_key="first")[0] == 200
        assert request(address, "/health")[0] == request(address, "/")[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (CHAT, b"{", 400, "not valid JSON"),
        (CHAT, b"[" * 4000, 400, "not valid JSON"),
        (CHAT, b'{"model": NaN}', 400, "not valid JSON"),
        (CHAT, b"[]", 400, "must be a JSON object"),
        (CHAT, b"\xff\xfe", 400, "not valid JSON"),
        (CHAT, b"{}", 400, "Missing required parameter: 'model'"),
        (CHAT, b'{"model": "demo", "messages": [{"role": "user", "content": "\\ud800"}]}', 400, "not valid Unicode"),
        (CHAT, b'{"model": "demo", "messages": "' + b"x" * 5000 + b'"}', 413, "larger than 4096"),
        (CHAT, b'{"model": "demo", "messages": [{"role": "user"}], "seed": 1e400}', 400, "seed"),
        ("/v1/nothing", b"{}", 404, "nothing at this address"),
        ("/v1/models", b"{}", 405, "does not take this method"),
        (MESSAGES, b"{}", 400, "Missing required parameter"),
        (RESPONSES, b'{"model": "demo", "input": [{"type": "computer_call"}]}', 400, "computer_call"),
        (RESPONSES, b'{"model": "demo", "input": [{"role": "user", "content": [1]}]}', 400, "list of parts"),
    ],
)
def test_bad_requests(engine, path, body, status, words):
    with serving(engine, max_body=4096) as address:
        got, _, answer = request(address, path, body)
        error = json.loads(answer)["error"]
        assert (got, words in error["message"]) == (status, True), error
        assert request(address, "/health")[0] == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"messages": [1] * 1000},
        {"messages": [{"role": "user", "content": [1] * 1000}]},
        {"stop": [1] * 1000},
        {"logit_bias": {f"x{i}": 1 for i in range(5000)}},
        {"modalities": [1] * 1000},
    ],
)
def test_many_mistakes_are_not_all_listed(wrong):
    with pytest.raises(ValidationError) as caught:
        ChatRequest.model_validate({"model": "m", "messages": HI, **wrong})
    assert caught.value.error_count() < 10


def test_a_prompt_that_is_far_too_long_is_not_tokenized_to_its_end(engine, monkeypatch):
    encode, seen = swiftlet.Tokenizer.encode, []

    def count(self, text):
        seen.append(len(text))
        return encode(self, text)

    monkeypatch.setattr(swiftlet.Tokenizer, "encode", count)
    with pytest.raises(swiftlet.InputError, match="more than 65536 tokens and the context is 4096"):
        engine.generate("word " * 1_000_000)
    assert sum(seen) < 1_000_000
    # A long text that has fewer is read as it is.
    assert engine.encode("word " * 20_000, raw=True) == encode(engine.tokenizer, "word " * 20_000)


def test_a_large_body_without_a_length(engine):
    with serving(engine, max_body=4096) as address, closing(connect(address)) as connection:
        connection.request("POST", CHAT, iter([b"x" * 3000] * 3), encode_chunked=True)
        assert connection.getresponse().status == 413


def test_nothing_that_was_said_is_logged(engine, caplog):
    say(engine, "the secret answer")
    caplog.set_level(logging.DEBUG)
    with serving(engine) as address:
        chat(address, messages=[{"role": "user", "content": "the secret question"}])
        request(address, CHAT, {"model": "demo", "messages": HI, "stop": ["secret", ""]})
        request(address, "/secret?q=secret")
        engine._model.generate = None  # fails in an unexpected way
        assert request(address, CHAT, {"model": "demo", "messages": HI, "user": "secret"})[0] == 500
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name != "asyncio")
    assert CHAT in logged and "TypeError" in logged
    assert "secret" not in logged


def test_the_page_keeps_to_itself(engine):
    with serving(engine) as address:
        status, headers, body = request(address, "/")
        assert status == 200 and "default-src 'none'" in headers["Content-Security-Policy"]
        assert b"://" not in body
        assert request(address, "/page/app.js")[1]["Content-Type"].startswith("text/javascript")
        for name in ("none.js", "..%2Fapp.py", "../app.py"):
            assert request(address, f"/page/{name}")[0] == 404
    with serving(engine, chat_page=False) as address:
        assert request(address, "/")[0] == 404


def test_metrics_and_health(engine):
    say(engine, "Hello")
    with serving(engine) as address:
        chat(address)
        text = request(address, "/metrics")[2].decode()
        for line in ('swiftlet_requests_total{path="/v1/chat/completions",status="200"} 1.0',
                     "swiftlet_running 0.0", "swiftlet_waiting 0.0"):  # fmt: skip
            assert line in text
        assert f"swiftlet_completion_tokens_total {len(engine._model.script)}.0" in text
        assert json.loads(request(address, "/health")[2]) == {"status": "ok"}


def test_any_name_will_do_if_so_wished(engine):
    say(engine, "Hello")
    with serving(engine, aliases=("*", "gpt-4o")) as address:
        assert chat(address, model="whatever")["model"] == "whatever"
        names = [model["id"] for model in json.loads(request(address, "/v1/models")[2])["data"]]
        assert names == ["demo", "gpt-4o"]


# Over time


def test_many_requests_leave_nothing_behind(engine):
    say(engine, f"Let me see.\n{CALL}")
    bodies = [
        (CHAT, {"messages": HI}),
        (CHAT, {"messages": HI, "stream": True, "tools": TOOLS}),
        (CHAT, {"messages": HI, "max_tokens": 0}),
        (CHAT, {"messages": HI * 3, "logprobs": True, "top_logprobs": 1}),
        ("/v1/completions", {"prompt": "x", "stream": True}),
        (MESSAGES, {"messages": HI, "max_tokens": 9, "stream": True}),
        (RESPONSES, {"input": "Hi", "store": False}),
        ("/v1/none", {}),
    ]

    def ask(address, count):
        for i in range(count):
            path, body = bodies[i % len(bodies)]
            request(address, path, {"model": "demo", **body})
        wait_until(lambda: json.loads(request(address, "/stats")[2])["running"] == 0)
        gc.collect()
        return len(gc.get_objects())

    with serving(engine) as address:
        ask(address, 64)  # caches fill
        counts = [ask(address, 200) for _ in range(4)]
    # One object kept of each request would be 200 more every time; what else the process does is now and then.
    assert min(after - before for before, after in pairwise(counts)) < 150


def test_sigterm_lets_answers_finish(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "swiftlet", "serve", "--port", "0", "--memory", "1GB", "--context", "2048"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        line = server.stdout.readline()
        address = line.split()[-1]
        assert line.startswith("demo is served at http://127.0.0.1:")
        body = {
            "model": "demo",
            "messages": HI,
            "stream": True,
            "max_tokens": 300,
            "temperature": 1.5,
            "ignore_eos": True,
        }
        with closing(connect(address)) as connection:
            connection.request("POST", CHAT, json.dumps(body))
            response = connection.getresponse()
            first = response.read(400)
            server.send_signal(signal.SIGTERM)
            events = (first + response.read()).decode()
        assert events.rstrip().endswith("data: [DONE]") and '"finish_reason":"length"' in events
        assert server.wait(20) == 0
        with pytest.raises(OSError, match="refused"):
            request(address, "/health")
        assert "Traceback" not in server.stderr.read()


def test_the_command_says_what_is_wrong(capsys, monkeypatch):
    from swiftlet.cli import main

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "choose another with --port" in capsys.readouterr().err
    assert main(["serve", "--queue", "-1"]) == 2
    monkeypatch.setitem(sys.modules, "swiftlet.server.run", None)
    monkeypatch.delattr("swiftlet.server.run")
    assert main(["serve"]) == 2
    assert "pip install 'pyswiftlet[server]'" in capsys.readouterr().err
