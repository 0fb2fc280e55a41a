"""Requests to Anthropic's /v1/messages. Unknown fields are ignored: its clients send new ones all the time."""

from typing import Annotated, Any, Literal

from pydantic import Field

from swiftlet.server.chat_schema import MAX_MESSAGES, MAX_TOOLS, Entries, FunctionName, Lenient, Parts, StopString


class AnthropicMessage(Lenient):
    """A turn: text, or a list of blocks."""

    role: Literal["user", "assistant", "system"]
    content: str | Parts


class AnthropicTool(Lenient):
    """A tool; those with a `type` of their own run on Anthropic's servers and cannot be called here."""

    name: FunctionName
    type: str | None = None
    description: str | None = None
    strict: bool | None = None
    input_schema: dict[str, Any] | None = None


class ToolChoice(Lenient):
    """Whether a tool must be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Thinking(Lenient):
    """Whether the model thinks first."""

    type: Literal["enabled", "disabled", "adaptive"]


class OutputFormat(Lenient):
    """JSON of a schema as answer."""

    type: Literal["json_schema"]
    json_schema: dict[str, Any] = Field(alias="schema")


class OutputConfig(Lenient):
    """The form of the answer."""

    format: OutputFormat | None = None


class PromptRequest(Lenient):
    """What the prompt is made of; all that /v1/messages/count_tokens takes."""

    model: str
    messages: Annotated[Entries[AnthropicMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    system: str | Parts | None = None
    tools: Annotated[Entries[AnthropicTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None


class MessagesRequest(PromptRequest):
    """A request to /v1/messages."""

    max_tokens: Annotated[int, Field(ge=1)]
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    stop_sequences: Annotated[Entries[StopString], Field(max_length=16)] | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
