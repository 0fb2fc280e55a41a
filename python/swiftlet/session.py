"""A conversation: messages in, deltas out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from swiftlet import _core
from swiftlet.answer_parser import AnswerParser, Reasoning
from swiftlet.chat_template import Message
from swiftlet.generation import Stream
from swiftlet.records import Completion, Delta
from swiftlet.thinking import begins_thinking, split_thinking
from swiftlet.tool_calls import CallArguments, CallBegin, Text

if TYPE_CHECKING:
    from swiftlet.engine import Engine, GenerateOptions


class Session:
    """A conversation with an engine, which remembers what was said.

    session = swiftlet.Session(engine, system="Be brief.")
    for delta in session.send("Why is the sky blue?"):
        print(delta, end="", flush=True)
    print(session.ask("And at night?").text)

    Any number of sessions can share an engine and take turns: it keeps their states, so that a follow-up prefills only
    what is new. One answer is made at a time: send() ends an answer of any session that is still under way, while ask()
    waits for another ask().
    """

    def __init__(
        self,
        engine: "Engine",
        *,
        system: str | None = None,
        messages: Sequence[Message] = (),
        **options: Unpack["GenerateOptions"],
    ) -> None:
        """Begins a conversation, or goes on with one.

        system: a system message, before the others.
        messages: what was said already.
        options: for all answers, as for Engine.generate. send() may override them.
        """
        self._engine = engine
        self._options = options
        self._reply: Reply | None = None
        self._messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
        self._messages += messages

    @property
    def messages(self) -> list[Message]:
        """What was said so far, system message included; a copy. Thoughts are in "reasoning_content"."""
        return list(self._messages)

    def send(self, message: str | Message | Sequence[Message], **options: Unpack["GenerateOptions"]) -> "Reply":
        """Says something, and begins the answer to it.

        message: the user's words, a message of any role, or several (the results of tool calls).

        Both sides join the conversation when the answer ends: also one that was closed early, with what was said until
        then. After an error, and if nothing was said yet, neither does. Raises what Engine.generate raises.
        """
        self.end_reply()
        asked = _messages_of(message)
        messages = [*self._messages, *asked]
        chosen: GenerateOptions = {**self._options, **options}
        begun = begins_thinking(
            self._engine.render(
                messages,
                tools=chosen.get("tools"),
                enable_thinking=chosen.get("enable_thinking"),
                chat_template_kwargs=chosen.get("chat_template_kwargs"),
            )
        )
        stream = self._engine.generate(messages, **chosen)
        self._reply = Reply(self, stream, asked, begun=begun, tools=chosen.get("tools") or ())
        return self._reply

    def ask(self, message: str | Message | Sequence[Message], **options: Unpack["GenerateOptions"]) -> Completion:
        """The whole answer in one go; otherwise like send()."""
        with self._engine.turn, self.send(message, **options) as reply:
            for _ in reply:
                pass
            return reply.result

    def end_reply(self) -> None:
        """Ends an answer that is under way; what it has said so far is part of the conversation."""
        if self._reply is not None:
            self._reply.close()

    def _add(self, messages: Sequence[Message]) -> None:
        self._messages += messages
        self._reply = None


class Reply(Iterator[Delta]):
    """The deltas of one answer in a session; made by Session.send. Like Stream, and `message` is the answer's."""

    def __init__(
        self,
        session: Session,
        stream: Stream,
        asked: Sequence[Message],
        *,
        begun: bool,
        tools: Sequence[Mapping[str, Any]],
    ) -> None:
        self._session: Session | None = session
        self._stream = stream
        self._asked = asked
        self._tools = tools
        self._message: Message | None = None
        self.begins_thinking = begun
        """True if the prompt ended inside the thoughts: the text begins with them, without a <think>."""

    def __next__(self) -> Delta:
        try:
            return next(self._stream)
        except (StopIteration, KeyboardInterrupt):
            self._finish()
            raise
        except BaseException:
            self._session = None
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the answer, from any thread."""
        self._stream.close()
        self._finish()

    @property
    def result(self) -> Completion:
        """The completion, once the answer has ended. Raises InputError before."""
        return self._stream.result

    @property
    def message(self) -> Message:
        """The answer as a message, once it has ended: "content", "reasoning_content" if there are thoughts, and
        "tool_calls" if it calls the functions that it was offered."""
        if self._message is None:
            make = _message_with_calls if self._tools else _message
            self._message = make(self.result, self.begins_thinking, self._tools)
        return self._message

    def _finish(self) -> None:
        """Puts question and answer into the conversation, once, and only if something was said."""
        session, self._session = self._session, None
        if session is not None and self.result.token_ids:
            session._add([*self._asked, self.message])


def _message(result: Completion, begun: bool, _: object) -> Message:
    reasoning, content = split_thinking(result.text, begun=begun)
    thoughts = {} if reasoning is None else {"reasoning_content": reasoning}
    return {"role": "assistant", "content": content, **thoughts}


def _message_with_calls(result: Completion, begun: bool, tools: Sequence[Mapping[str, Any]]) -> Message:
    parser = AnswerParser(begun=begun, tools=tools)
    reasoning = content = ""
    calls: list[dict[str, Any]] = []
    for event in parser.push(result.text) + parser.finish(cut=result.finish_reason != "stop"):
        match event:
            case Reasoning(text):
                reasoning += text
            case Text(text):
                content += text
            case CallBegin(_, id, name):
                calls.append({"id": id, "type": "function", "function": {"name": name, "arguments": ""}})
            case CallArguments(index, text):
                calls[index]["function"]["arguments"] += text
    thoughts = {"reasoning_content": reasoning} if reasoning else {}
    return {"role": "assistant", "content": content, **thoughts, **({"tool_calls": calls} if calls else {})}


def _messages_of(message: str | Message | Sequence[Message]) -> list[Message]:
    if isinstance(message, str):
        return [{"role": "user", "content": message}]
    if isinstance(message, Mapping):
        return [message]
    if isinstance(message, list | tuple):
        return [*message]
    raise _core.InputError(f"a message is text, an object or a list of objects, not {type(message).__name__}")
