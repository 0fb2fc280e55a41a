"""Requests to /v1/chat/completions and /v1/completions.

Fields of OpenAI's API that make no difference here are taken and ignored; what no API knows is refused. Beyond it there
are top_k, min_p, repetition_penalty, ignore_eos, enable_thinking and chat_template_kwargs, as in other local servers.
"""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, field_validator

MAX_MESSAGES = 20_000
MAX_TOOLS = 512
_MAX_BIASES = 4096

Entry = TypeVar("Entry")
# The first entry that is wrong ends the work: to list millions of them would take gigabytes.
Entries = Annotated[list[Entry], Field(fail_fast=True)]
Parts = Annotated[list[dict[str, Any]], Field(fail_fast=True, max_length=MAX_MESSAGES)]

FunctionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")]
StopString = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
NonNegative = Annotated[int, Field(ge=0)]


class Lenient(BaseModel):
    """A part of a request in which unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class FunctionText(Lenient):
    """The function of a call that was made earlier."""

    name: str
    arguments: str = ""


class ToolCall(Lenient):
    """A call that was made earlier."""

    id: str = ""
    type: Literal["function"] = "function"
    function: FunctionText


class Message(Lenient):
    """A message of the conversation so far."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Parts | None = None
    name: str | None = None
    tool_calls: Annotated[Entries[ToolCall], Field(max_length=MAX_MESSAGES)] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Function(Lenient):
    """A function that may be called."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Lenient):
    """A tool: functions are the only ones."""

    type: Literal["function"]
    function: Function


class NamedFunction(Lenient):
    """Names a function."""

    name: str


class NamedTool(Lenient):
    """A choice of one function."""

    type: Literal["function"]
    function: NamedFunction


class JsonSchema(Lenient):
    """A schema for the answer."""

    name: str | None = None
    description: str | None = None
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Lenient):
    """The form of the answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(Lenient):
    """What a stream tells besides the answer."""

    include_usage: bool = False
    include_obfuscation: bool = False


def _few(biases: Any) -> Any:
    """Checked before each of them is."""
    if isinstance(biases, dict) and len(biases) > _MAX_BIASES:
        raise ValueError(f"there may be {_MAX_BIASES} of them at most")
    return biases


class SamplingRequest(BaseModel):
    """What both kinds of completions take."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    # The second name is Ollama's and llama.cpp's, which Open WebUI sends.
    repetition_penalty: Annotated[
        Annotated[float, Field(gt=0, le=100)] | None,
        Field(validation_alias=AliasChoices("repetition_penalty", "repeat_penalty")),
    ] = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    logit_bias: Annotated[dict[NonNegative, Annotated[float, Field(ge=-100, le=100)]], BeforeValidator(_few)] | None = (
        None
    )
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    stop: StopString | Annotated[Entries[StopString], Field(max_length=16)] | None = None
    n: int | None = None
    ignore_eos: bool | None = None
    user: str | None = None

    @field_validator("n")
    @classmethod
    def _one(cls, n: int | None) -> int | None:
        if n not in (None, 1):
            raise ValueError("one answer at a time: n must be 1")
        return n


class ChatRequest(SamplingRequest):
    """A request to /v1/chat/completions."""

    messages: Annotated[Entries[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    tools: Annotated[Entries[Tool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Effort | None = None
    enable_thinking: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    # Taken and ignored:
    store: bool | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    verbosity: str | None = None
    prediction: dict[str, Any] | None = None
    modalities: Entries[Literal["text"]] | None = None
    cache_prompt: bool | None = None


class CompletionRequest(SamplingRequest):
    """A request to /v1/completions. A prompt is text or token ids."""

    prompt: str | Entries[str] | Entries[int] | Entries[Entries[int]]
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    echo: bool | None = None
    best_of: int | None = None
    suffix: str | None = None

    @field_validator("best_of")
    @classmethod
    def _one_too(cls, best_of: int | None) -> int | None:
        if best_of not in (None, 1):
            raise ValueError("one answer at a time: best_of must be 1")
        return best_of

    @field_validator("suffix")
    @classmethod
    def _no_suffix(cls, suffix: str | None) -> str | None:
        if suffix:
            raise ValueError("text is only continued, not filled in")
        return suffix
