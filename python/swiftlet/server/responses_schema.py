"""Requests to /v1/responses. Unknown fields are ignored: its clients send new ones all the time."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from swiftlet.server.chat_schema import MAX_TOOLS, Effort, Entries, FunctionName, Lenient, Parts


class ResponsesTool(Lenient):
    """A function, a "custom" tool that takes text, or a tool of OpenAI's servers, which cannot be called here."""

    type: str
    name: FunctionName | None = None
    description: str | None = None
    strict: bool | None = None
    parameters: dict[str, Any] | None = None


class ResponsesChoice(Lenient):
    """A choice of one tool, or of some."""

    type: str
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: Parts | None = None


class TextFormat(Lenient):
    """The form of the answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")


class TextOptions(Lenient):
    """How the text is to be."""

    format: TextFormat | None = None


class ReasoningOptions(Lenient):
    """How much the model thinks."""

    effort: Effort | None = None


class ResponsesRequest(Lenient):
    """A request to /v1/responses."""

    model: str
    input: str | Parts
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    tools: Annotated[Entries[ResponsesTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ResponsesChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningOptions | None = None
    text: TextOptions | None = None
    metadata: dict[str, Any] | None = None
    user: str | None = None
    background: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    @field_validator("background")
    @classmethod
    def _in_the_foreground(cls, background: bool | None) -> bool | None:
        if background:
            raise ValueError("answers are made while you wait: background must be false")
        return background
