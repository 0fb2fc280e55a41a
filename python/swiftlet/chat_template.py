"""Messages to prompt text, with the Jinja template that comes with the model."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from swiftlet import _core
from swiftlet.models import read_json

Message = Mapping[str, Any]


class ChatTemplate:
    """The chat template of a checkpoint or container folder: chat_template.jinja, else "chat_template" in
    tokenizer_config.json (a string, or a list of named ones of which `default` and `tool_use` are used).

    Rendered as Hugging Face does it: sandboxed, with trimmed blocks, `tojson`, `raise_exception`, `strftime_now`, loop
    controls and the special tokens as variables.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        config_path = Path(folder) / "tokenizer_config.json"
        config = read_json(config_path)
        self._sources, self._origin = _find(Path(folder) / "chat_template.jinja", config_path, config)
        self._variables = _special_tokens(config)
        self._environment = _environment()
        self._compiled: dict[str, jinja2.Template] = {}

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt text of a conversation. `variables` are passed on to the template (enable_thinking, ...).

        A list of text parts as content is joined, and tool call arguments that are JSON text are parsed first. Raises
        InputError for malformed messages and for what the template refuses, in the template's words.
        """
        checked = [_message(i, message) for i, message in enumerate(_list_of_objects("messages", messages))]
        if not checked:
            raise _core.InputError("messages is empty; give at least one message")
        tool_list = _list_of_objects("tools", tools) if tools else None
        template = self._template("tool_use" if tool_list and "tool_use" in self._sources else "default")
        variables = {**self._variables, "documents": None, **variables}
        try:
            return template.render(
                variables, messages=checked, tools=tool_list, add_generation_prompt=add_generation_prompt
            )
        except SecurityError as error:
            raise _core.ContainerError(f"{self._origin} does something that templates may not: {error}") from error
        except Refusal as error:
            raise _core.InputError(str(error)) from error
        except Exception as error:  # a template can fail in any way that Python can
            raise _core.InputError(f"the chat template cannot render these messages: {error}") from error

    def _template(self, name: str) -> jinja2.Template:
        if not self._sources:
            raise _core.InputError(f"{self._origin} has no chat template; give text with raw=True, or token ids")
        if name not in self._compiled:
            try:
                self._compiled[name] = self._environment.from_string(self._sources[name])
            except jinja2.TemplateSyntaxError as error:
                where = f"{self._origin}: line {error.lineno} of the template"
                raise _core.ContainerError(f"{where}: {error.message}") from error
        return self._compiled[name]


class Refusal(Exception):
    """What a template raises with raise_exception(text)."""


def _find(file: Path, config_path: Path, config: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """The templates by name, and where they come from."""
    if file.is_file():
        try:
            return {"default": file.read_text(encoding="utf-8")}, str(file)
        except (OSError, UnicodeDecodeError) as error:
            raise _core.ContainerError(f"{file} cannot be read: {error}") from error
    source = config.get("chat_template")
    if source is None:
        return {}, str(file.parent)
    if isinstance(source, str):
        return {"default": source}, str(config_path)
    try:
        named = {entry["name"]: entry["template"] for entry in source}
    except (KeyError, TypeError) as error:
        raise _core.ContainerError(f"{config_path}: chat_template must be text or a list of named templates") from error
    if not isinstance(named.get("default"), str) or not isinstance(named.get("tool_use", ""), str):
        raise _core.ContainerError(f'{config_path}: chat_template has no template named "default"')
    return named, str(config_path)


def _special_tokens(config: Mapping[str, Any]) -> dict[str, Any]:
    """bos_token, eos_token and so on as text; those that are null stay undefined in the template."""
    tokens: dict[str, Any] = {}
    for name in ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"):
        token = config.get(name)
        text = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(text, str):
            tokens[name] = text
    if isinstance(config.get("additional_special_tokens"), list):
        tokens["additional_special_tokens"] = config["additional_special_tokens"]
    return tokens


def _list_of_objects(name: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise _core.InputError(f"{name} must be a list, not {type(value).__name__}")
    for i, entry in enumerate(value):
        if not isinstance(entry, Mapping):
            raise _core.InputError(f"{name}[{i}] must be an object, not {type(entry).__name__}")
    return [dict(entry) for entry in value]


def _message(i: int, message: dict[str, Any]) -> dict[str, Any]:
    """A checked copy of one message, in the form that templates expect."""
    if not isinstance(message.get("role"), str):
        raise _core.InputError(f'messages[{i}] has no "role"')
    content = message.get("content")
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        message["content"] = "".join(_text_part(i, part) for part in content)
    elif content is not None and not isinstance(content, str):
        raise _core.InputError(f'"content" of messages[{i}] must be text, not {type(content).__name__}')
    if message.get("tool_calls"):
        calls = _list_of_objects(f"messages[{i}].tool_calls", message["tool_calls"])
        message["tool_calls"] = [_tool_call(i, call) for call in calls]
    return message


def _text_part(i: int, part: Any) -> str:
    kind = part.get("type", "text") if isinstance(part, Mapping) else type(part).__name__
    if kind != "text" or not isinstance(part.get("text"), str):
        raise _core.InputError(f'"content" of messages[{i}] has a part of type {kind!r}; only text is supported')
    return str(part["text"])


def _tool_call(i: int, call: dict[str, Any]) -> dict[str, Any]:
    """OpenAI clients send arguments as JSON text; templates want the object."""
    function = call.get("function", call)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise _core.InputError(f"messages[{i}] has a tool call without a function name")
    arguments = function.get("arguments")
    what = f"messages[{i}] calls {function['name']!r} with arguments that are not"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError) as error:
            raise _core.InputError(f"{what} JSON: {error}") from error
    if arguments is not None and not isinstance(arguments, Mapping):
        raise _core.InputError(f"{what} an object")
    function = {**function, "arguments": arguments if arguments is not None else {}}
    return {**call, "function": function} if "function" in call else function


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's words for training; here it only passes its body on."""

    tags = {"generation"}  # noqa: RUF012 (the base class wants a plain set)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    helpers: dict[str, Callable[[str], str]] = {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    environment.globals.update(helpers)
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the HTML escapes of Jinja's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> str:
    raise Refusal(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)
