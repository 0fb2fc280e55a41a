"""The server with the demo model, through the real clients of OpenAI and Anthropic."""

import json

import anthropic
import openai
import pytest

import swiftlet
from http_server import serving

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
LONG = [{"role": "user", "content": "word " * 3000}]
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "days": {"type": "integer", "maximum": 9}},
    "required": ["city", "days"],
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": WEATHER}}


@pytest.fixture(scope="module")
def address():
    with swiftlet.Engine("demo", memory="1GB", context=1024, threads=2) as engine, serving(engine) as address:
        yield address


@pytest.fixture(scope="module")
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(address):
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
        yield client


def chat(client, messages=QUESTION, **options):
    return client.chat.completions.create(model="demo", messages=messages, temperature=0, **options)


def gather(chunks):
    """A streamed chat completion as the whole one would be."""
    content = reasoning = ""
    calls, finish, usage, logprobs = [], [], None, []
    for chunk in chunks:
        if not chunk.choices:
            usage = chunk.usage
            continue
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        logprobs += choice.logprobs.content if choice.logprobs else []
        for call in choice.delta.tool_calls or []:
            if call.index == len(calls):
                assert call.id and call.function.name
                calls.append([call.function.name, ""])
            calls[call.index][1] += call.function.arguments or ""
        if choice.finish_reason:
            finish.append(choice.finish_reason)
    assert len(finish) == 1
    return content, reasoning, calls, finish[0], usage, logprobs


# OpenAI: chat


def test_models(client):
    assert [model.id for model in client.models.list()] == ["demo"]
    assert client.models.retrieve("demo").owned_by == "swiftlet"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_chat_whole_and_streamed_are_equal(client):
    whole = chat(client, logprobs=True, top_logprobs=2)
    message = whole.choices[0].message
    assert "Paris" in message.content and message.reasoning_content
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert 0 < whole.usage.completion_tokens_details.reasoning_tokens < whole.usage.completion_tokens

    stream = chat(client, stream=True, stream_options={"include_usage": True}, logprobs=True, top_logprobs=2)
    content, reasoning, calls, finish, usage, logprobs = gather(stream)
    assert (content, reasoning, calls, finish) == (message.content, message.reasoning_content, [], "stop")
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert [entry.token for entry in logprobs] == [entry.token for entry in whole.choices[0].logprobs.content]
    assert "".join(entry.token for entry in logprobs).strip() == content
    assert all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in logprobs)


def test_no_thoughts(client):
    for options in ({"reasoning_effort": "none"}, {"extra_body": {"enable_thinking": False}},
                    {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}):  # fmt: skip
        answer = chat(client, **options)
        assert "Paris" in answer.choices[0].message.content
        assert answer.usage.completion_tokens_details.reasoning_tokens == 0


def test_max_tokens_and_seed(client):
    cut = chat(client, max_completion_tokens=3)
    assert cut.choices[0].finish_reason == "length" and cut.usage.completion_tokens == 3
    options = {"model": "demo", "messages": QUESTION, "temperature": 1.5, "max_tokens": 20, "reasoning_effort": "none"}
    texts = [client.chat.completions.create(seed=7, **options).choices[0].message.content for _ in range(2)]
    assert texts[0] == texts[1]


def test_stop_in_content_only(client):
    answer = chat(client, stop=["Paris"])
    assert answer.choices[0].message.content.strip() == "The capital of France is"
    assert "Paris" in answer.choices[0].message.reasoning_content
    assert answer.choices[0].finish_reason == "stop"


def test_a_follow_up_finds_its_beginning_cached(client):
    first = chat(client, reasoning_effort="none")
    turns = [*QUESTION, {"role": "assistant", "content": first.choices[0].message.content, "reasoning_content": ""}]
    again = chat(client, [*turns, {"role": "user", "content": "And of Italy?"}], reasoning_effort="none")
    assert again.usage.prompt_tokens_details.cached_tokens > 0
    assert again.choices[0].finish_reason == "stop"


def test_content_as_parts_and_developer_role(client):
    parts = [{"type": "text", "text": "What is the capital "}, {"type": "text", "text": "of France?"}]
    turns = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    assert "Paris" in chat(client, turns, reasoning_effort="none").choices[0].message.content


def test_json_schema(client):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"],
              "additionalProperties": False}  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema, "strict": True}}
    answer = chat(client, response_format=form, max_tokens=200)
    assert isinstance(json.loads(answer.choices[0].message.content)["n"], int)
    assert answer.choices[0].message.reasoning_content
    broken = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
    with pytest.raises(openai.BadRequestError, match="cannot be enforced"):
        chat(client, response_format=broken)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_call_that_must_be_made(client, choice):
    options = {"tools": [TOOL], "tool_choice": choice, "max_tokens": 300, "parallel_tool_calls": False}
    answer = chat(client, **options).choices[0]
    assert answer.finish_reason == "tool_calls"
    (call,) = answer.message.tool_calls
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "weather" and arguments["city"] in ("Paris", "Rome") and arguments["days"] <= 9
    content, _, calls, finish, _, _ = gather(chat(client, stream=True, **options))
    assert (content, calls, finish) == ("", [["weather", call.function.arguments]], "tool_calls")


def test_a_call_and_its_result_in_the_conversation(client):
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"'}}
    turns = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]},
             {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"}]  # fmt: skip
    assert chat(client, turns, tools=[TOOL], max_tokens=10).usage.completion_tokens <= 10


def test_text_completion(client):
    options = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 4, "temperature": 0, "logprobs": 1}
    whole = client.completions.create(**options)
    chunks = list(client.completions.create(stream=True, **options))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["length"]
    assert whole.choices[0].finish_reason == "length" and whole.usage.completion_tokens == 4
    assert len(whole.choices[0].logprobs.tokens) == 4
    echoed = client.completions.create(**{**options, "echo": True})
    assert echoed.choices[0].text == options["prompt"] + whole.choices[0].text


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"n": 2}, "n"),
        ({"extra_body": {"no_such_thing": 1}}, "no_such_thing"),
        ({"stop": [""]}, "stop"),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"messages": [{"role": "nobody", "content": "Hi"}]}, "messages"),
    ],
)
def test_refusals(client, options, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{"model": "demo", "messages": QUESTION, **options})
    assert caught.value.param.startswith(param)
    assert caught.value.body["type"] == "invalid_request_error"


def test_a_prompt_that_is_too_long(client):
    with pytest.raises(openai.BadRequestError, match=r"has \d{4,} tokens and the context is 1024") as caught:
        chat(client, LONG, stream=True)
    assert caught.value.code == "context_length_exceeded"


def test_an_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-7", messages=QUESTION)
    assert caught.value.code == "model_not_found"


# OpenAI: responses


def test_response_whole_and_streamed_are_equal(client):
    whole = client.responses.create(model="demo", input="What is the capital of France?", temperature=0)
    assert "Paris" in whole.output_text and whole.status == "completed"
    assert [item.type for item in whole.output] == ["reasoning", "message"]
    assert whole.usage.output_tokens_details.reasoning_tokens > 0
    with client.responses.stream(model="demo", input="What is the capital of France?", temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == whole.output_text
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"


def test_response_that_calls(client):
    tool = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}
    patch = {"type": "custom", "name": "patch", "description": "Changes a file"}
    given = {
        "model": "demo",
        "input": "Weather?",
        "tools": [tool, patch, {"type": "web_search"}],
        "max_output_tokens": 300,
    }
    answer = client.responses.create(
        tool_choice={"type": "function", "name": "weather"}, parallel_tool_calls=False, **given
    )
    call = answer.output[-1]
    assert call.type == "function_call" and json.loads(call.arguments)["city"] in ("Paris", "Rome")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "Sunny"}
    again = client.responses.create(model="demo", previous_response_id=answer.id, input=[output], max_output_tokens=5)
    alone = client.responses.create(model="demo", input="Weather?", max_output_tokens=5)
    assert again.usage.input_tokens > alone.usage.input_tokens + 20
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="demo", previous_response_id="resp_none", input="Hi")


def test_response_of_a_schema(client):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
              "additionalProperties": False}  # fmt: skip
    form = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    answer = client.responses.create(model="demo", input="Hi", text=form, instructions="Be brief.")
    assert isinstance(json.loads(answer.output_text)["ok"], bool)


# Anthropic


def test_models_for_anthropic(claude):
    assert [model.id for model in claude.models.list()] == ["demo"]


def test_message_whole_and_streamed_are_equal(claude):
    options = {"model": "demo", "max_tokens": 100, "messages": QUESTION, "extra_body": {"temperature": 0},
               "thinking": {"type": "enabled", "budget_tokens": 1024}}  # fmt: skip
    whole = claude.messages.create(**options)
    assert [block.type for block in whole.content] == ["thinking", "text"]
    assert "Paris" in whole.content[1].text and whole.stop_reason == "end_turn"
    with claude.messages.stream(**options) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(texts) == whole.content[1].text
    assert [block.model_dump() for block in final.content] == [block.model_dump() for block in whole.content]
    assert final.usage.output_tokens == whole.usage.output_tokens
    counted = claude.messages.count_tokens(model="demo", messages=QUESTION, thinking=options["thinking"])
    assert counted.input_tokens == whole.usage.input_tokens + whole.usage.cache_read_input_tokens


def test_message_stops(claude):
    options = {"model": "demo", "messages": QUESTION, "extra_body": {"temperature": 0}}
    stopped = claude.messages.create(max_tokens=50, stop_sequences=["Paris"], **options)
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "Paris")
    assert claude.messages.create(max_tokens=2, **options).stop_reason == "max_tokens"


def test_message_that_uses_a_tool(claude):
    tool = {"name": "weather", "description": "The weather", "input_schema": WEATHER}
    options = {"model": "demo", "max_tokens": 300, "tools": [tool], "extra_body": {"temperature": 0},
               "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}  # fmt: skip
    whole = claude.messages.create(messages=QUESTION, **options)
    (block,) = whole.content
    assert whole.stop_reason == "tool_use" and block.input["city"] in ("Paris", "Rome")
    with claude.messages.stream(messages=QUESTION, **options) as stream:
        (streamed,) = stream.get_final_message().content
    assert (streamed.name, streamed.input) == (block.name, block.input)
    result = {"type": "tool_result", "tool_use_id": block.id, "content": [{"type": "text", "text": "Sunny"}]}
    turns = [*QUESTION, {"role": "assistant", "content": [block.model_dump()]},
             {"role": "user", "content": [result, {"type": "text", "text": "Thanks."}]}]  # fmt: skip
    again = claude.messages.create(
        model="demo",
        max_tokens=5,
        messages=turns,
        tools=[tool],
        system=[{"type": "text", "text": "x-anthropic-billing-header: cch=12345;"}],
    )
    assert again.usage.output_tokens <= 5


def test_message_refusals(claude):
    with pytest.raises(anthropic.NotFoundError) as caught:
        claude.messages.create(model="claude", max_tokens=5, messages=QUESTION)
    assert caught.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError) as caught:
        claude.messages.create(model="demo", max_tokens=5, messages=LONG)
    assert "the context is 1024" in caught.value.body["error"]["message"]
    with pytest.raises(anthropic.BadRequestError):
        claude.messages.create(model="demo", max_tokens=0, messages=QUESTION)
