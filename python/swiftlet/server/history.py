"""The conversation that a client sends, in the form that chat templates take."""

from collections.abc import Iterable
from typing import Any

from swiftlet.json_values import complete_members, dump, parse_object
from swiftlet.server.errors import ApiError


def in_template_form(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages with one system message, at the beginning.

    Most templates want it so, while agents send several: those at the beginning are joined. A later one becomes a
    message of the user, which keeps the order, and with it what has been prefilled.
    """
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] in ("system", "developer"):
            if turns:
                turns.append({**message, "role": "user"})
            elif message["content"]:
                system.append(message["content"])
        else:
            turns.append(message)
    head = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    return head + turns


def text_of(content: Any, param: str, kinds: tuple[str, ...] = ("text",)) -> str:
    """The text of a message's content, which is text or a list of parts of these kinds."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise ApiError(400, "the content must be text or a list of parts", param, "invalid_value")
    texts = []
    for i, part in enumerate(content):
        if part.get("type") == "refusal":
            texts.append(str(part.get("refusal", "")))
        elif part.get("type") in kinds and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            kind = part.get("type")
            raise ApiError(400, f"parts of type {kind!r} are not supported: this model reads text", f"{param}[{i}]")
    return "".join(texts)


def function_call(id: str, name: str, arguments: str) -> dict[str, Any]:
    """A call that the model has made earlier. Arguments that were cut off are reduced to what is complete."""
    value = parse_object(arguments) if arguments.strip() else {}
    if value is None:
        value = complete_members(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": dump(value)}}
