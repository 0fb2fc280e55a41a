"""The command line in the same process, with a scripted core."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

import fake_core
import swiftlet
from swiftlet.cli import main
from swiftlet.cli.chat import Chat
from swiftlet.cli.line_editor import LineEditor
from swiftlet.cli.report import print_table
from swiftlet.cli.status_line import StatusLine
from swiftlet.thinking import begins_thinking, split_thinking


@pytest.fixture
def container(monkeypatch, next_folder):
    """A folder that the scripted core loads; it answers "Hello, world!"."""
    monkeypatch.setattr(swiftlet._core, "Engine", fake_core.FakeEngine)
    monkeypatch.setattr(swiftlet._core, "check_container", lambda path: None)
    (next_folder / "manifest.json").write_text("{}")
    say(monkeypatch, next_folder, "Hello, world!")
    return next_folder


def say(monkeypatch, container, text):
    ids = swiftlet.Tokenizer(container).encode(text)
    monkeypatch.setattr(fake_core.FakeEngine, "script", [*ids, 450])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(*arguments):
    return main([str(argument) for argument in arguments])


# generate


def test_generate_streams_the_answer_and_reports_to_stderr(container, capsys):
    assert run("generate", "Hi", "-m", container) == 0
    out, err = capsys.readouterr()
    assert out == "Hello, world!\n"
    assert "answer 10 tokens" in err and "50.0% hits" in err


def test_generate_quiet(container, capsys):
    assert run("generate", "Hi", "-m", container, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_generate_json(container, capsys):
    assert run("generate", "Hi", "-m", container, "--json", "--logprobs", 1, "--seed", 5) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record["text"] == "Hello, world!" and record["seed"] == 5 and record["finish_reason"] == "stop"
    assert len(record["logprobs"]) == len(record["token_ids"]) == record["stats"]["completion_tokens"]
    assert record["model"] == str(container) and err == ""


@pytest.mark.parametrize("arguments", [["-"], []])
def test_generate_reads_a_pipe(container, capsys, monkeypatch, arguments):
    asked = []
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe\n"))
    monkeypatch.setattr(swiftlet.ChatTemplate, "render", lambda self, messages, **_: asked.append(messages) or "x")
    assert run("generate", *arguments, "-m", container) == 0
    assert asked[-1] == [{"role": "user", "content": "from a pipe"}]


def test_generate_passes_options_on(container, capsys, monkeypatch):
    seen = {}

    def render(self, messages, **options):
        seen.update(messages=messages, **options)
        return "x"

    monkeypatch.setattr(swiftlet.ChatTemplate, "render", render)
    flags = ["--system", "Be brief.", "--no-think", "-n", 2, "-t", 0.5, "--top-p", 0.25, "--stop", "a", "--stop", "b"]
    assert run("generate", "Hi", "-m", container, *flags) == 0
    assert seen["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert seen["enable_thinking"] is False
    assert "answer 2 tokens" in capsys.readouterr().err


def test_generate_raw_uses_no_template(container, capsys, monkeypatch):
    monkeypatch.setattr(swiftlet.ChatTemplate, "render", lambda *_, **__: pytest.fail("rendered"))
    assert run("generate", "Once", "--raw", "-m", container) == 0
    assert "prompt 4 tokens" in capsys.readouterr().err


def test_verbose_prints_the_plan(container, capsys):
    assert run("generate", "Hi", "-m", container, "-v") == 0
    assert capsys.readouterr().err.count("4 GB = weights + pool") == 1


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "Hi", "-m", "nowhere"], "there is no model 'nowhere'"),
        (["generate", "Hi", "--memory", "lots"], "memory is 'lots'"),
        (["generate", "Hi", "-t", "-1"], "temperature is -1.0"),
        (["generate", "Hi", "--top-p", "nan"], "top_p is nan"),
        (["generate", ""], "the prompt is empty"),
        (["generate", "Hi", "--raw", "--system", "x"], "need the chat template"),
        (["generate", "Hi", "--logprobs", "1"], "--logprobs needs --json"),
        (["generate", "long " * 200], "tokens and the context is 128"),
        (["generate", "\udcff"], "not valid Unicode"),
        (["bench", "--repeats", "0"], "--repeats is 0; it must be 1 or more"),
        (["bench", "-p", "100", "-n", "29"], "need a context of 129 or more"),
        (["info", "nowhere"], "there is no model 'nowhere'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(container, capsys, arguments, message):
    where = [] if "-m" in arguments or arguments[0] == "info" else ["-m", str(container)]
    assert main(arguments + where) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("swiftlet: error: ") and err.count("\n") == 1
    assert message in err


def test_stdin_that_is_no_text(container, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ab\xff"), encoding="utf-8"))
    assert run("generate", "-", "-m", container) == 2
    assert "stdin is not valid utf-8 text: byte 2 is 0xff" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["generate", "Hi", "-t", "hot"], ["chat", "--io", "x"]])
def test_usage_errors_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    assert "usage: swiftlet" in capsys.readouterr().err


def test_unexpected_failures_are_status_1(container, capsys, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(swiftlet.ChatTemplate, "render", lambda *_, **__: "x")
    monkeypatch.setattr(fake_core.FakeGeneration, "next", fail)
    assert run("generate", "Hi", "-m", container) == 1
    assert capsys.readouterr().err == "swiftlet: unexpected error: ZeroDivisionError: oh (--debug shows where)\n"
    assert run("generate", "Hi", "-m", container, "--debug") == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_ctrl_c_is_status_130(container, capsys, monkeypatch):
    calls = iter(range(100))
    original = fake_core.FakeGeneration.next

    def next_or_press(self, interrupt=None):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return original(self, interrupt)

    monkeypatch.setattr(fake_core.FakeGeneration, "next", next_or_press)
    assert run("generate", "Hi", "-m", container) == 130
    out, err = capsys.readouterr()
    assert out and "Hello, world!".startswith(out)
    assert err == "\nswiftlet: interrupted\n"


# chat


def test_chat_from_a_pipe(container, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hi\n\n/stats\nMore\n/quit\nnever asked\n"))
    assert run("chat", "-m", container) == 0
    out, _ = capsys.readouterr()
    assert out.count("Hello, world!\n") == 2
    assert out.count("answer 10 tokens") == 1


@pytest.fixture
def chat(container):
    with swiftlet.Engine(container) as engine:
        yield Chat(engine, {}, system=None, think=False)


def asked(chat, monkeypatch):
    """Lists, from now on, the messages of each answer."""
    seen = []
    original = swiftlet.ChatTemplate.render

    def render(self, messages, **options):
        seen.append([dict(message) for message in messages])
        return original(self, messages, **options)

    monkeypatch.setattr(swiftlet.ChatTemplate, "render", render)
    return seen


def test_chat_remembers_and_forgets(chat, capsys, monkeypatch):
    seen = asked(chat, monkeypatch)
    assert chat.take("One") and chat.take("Two")
    two = [("user", "One"), ("assistant", "Hello, world!"), ("user", "Two")]
    assert [(m["role"], m["content"]) for m in seen[-1]] == two
    assert chat.take("/reset") and chat.take("Three")
    assert [m["content"] for m in seen[-1]] == ["Three"]
    assert chat.take("/system Be brief.") and chat.take("Four")
    assert [(m["role"], m["content"]) for m in seen[-1]] == [("system", "Be brief."), ("user", "Four")]


def test_chat_keeps_thoughts_apart(chat, capsys, monkeypatch, container):
    say(monkeypatch, container, "hm\n</think>\n\nHello!")
    monkeypatch.setattr(swiftlet.ChatTemplate, "render", lambda self, messages, **_: "<think>\n")
    chat.take("One")
    assert chat._session.messages[1] == {"role": "assistant", "content": "Hello!", "reasoning_content": "hm"}


def test_chat_commands(chat, capsys):
    for command in ("/help", "/stats", "/system", "/think on", "/think", "/think maybe", "/nonsense"):
        assert chat.take(command)
    out = capsys.readouterr().out
    for words in ("/reset", "no answer yet", "no system prompt", "thinks first", "The template", "Say /think"):
        assert words in out
    assert "There is no command /nonsense" in out
    assert not chat.take("/quit") and not chat.take("/exit")


def test_paths_are_no_commands(chat, capsys):
    assert chat.take("/usr/bin/env is what?")
    assert "Hello, world!" in capsys.readouterr().out


def test_chat_goes_on_after_an_error(chat, capsys):
    assert chat.take("long " * 200)
    out, err = capsys.readouterr()
    assert err.startswith("swiftlet: error: the prompt has") and out == ""
    chat.take("Hi")
    assert len(chat._session.messages) == 2


def test_ctrl_c_stops_the_answer_only(chat, capsys, monkeypatch):
    original = fake_core.FakeGeneration.next

    def next_or_press(self, interrupt=None):
        if len(self.given) == 4:
            raise KeyboardInterrupt
        return original(self, interrupt)

    monkeypatch.setattr(fake_core.FakeGeneration, "next", next_or_press)
    assert chat.take("Hi")
    assert capsys.readouterr().out.endswith("\n[stopped]\n")
    assert "Hello, world!".startswith(chat._session.messages[1]["content"])
    monkeypatch.undo()


def test_chat_saves_and_loads(chat, capsys, monkeypatch, tmp_path):
    chat.take("/system Be brief.")
    chat.take("One")
    chat.take("/think on")
    said = chat._session.messages
    file = tmp_path / "talk.json"
    assert chat.take(f"/save {file}")
    chat.take("/reset")
    assert chat._session.messages == said[:1]
    assert chat.take(f"/load {file}") and chat._session.messages == said and chat._think is True
    out, err = capsys.readouterr()
    assert f"Saved to {file}." in out and f"Loaded {file}: 1 question." in out and err == ""
    seen = asked(chat, monkeypatch)
    chat.take("Two")
    assert [m["content"] for m in seen[-1]] == ["Be brief.", "One", "Hello, world!", "Two"]
    chat.take("/save")
    assert len(json.loads(file.read_text())["messages"]) == 5
    chat.take("/reset")
    chat.take(f"/save {file}")
    chat.take("/save")
    assert capsys.readouterr().err.count("error: ") == 2
    assert len(json.loads(file.read_text())["messages"]) == 5
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("talk")] == ["talk.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is not a saved conversation: "),
        ("[]", 'it needs "messages"'),
        ('{"messages": 5}', 'it needs "messages"'),
        ('{"messages": [], "enable_thinking": 1}', 'it needs "messages"'),
        ('{"messages": ["Hi"]}', 'a message has no "role"'),
        ('{"messages": [{"role": "user", "content": 5}]}', '"content" is no text'),
        ("[" * 100_000, "is not a saved conversation: "),
    ],
)
def test_chat_refuses_other_files(chat, capsys, tmp_path, text, message):
    chat.take("One")
    file = tmp_path / "talk.json"
    if text is not None:
        file.write_text(text)
    assert chat.take(f"/load {file}")
    err = capsys.readouterr().err
    assert err.startswith(f"swiftlet: error: {file} ") and message in err and err.count("\n") == 1
    assert len(chat._session.messages) == 2


def test_chat_starts_with_a_saved_conversation(container, chat, capsys, monkeypatch, tmp_path):
    chat.take("One")
    chat.take(f"/save {tmp_path / 'talk.json'}")
    monkeypatch.setattr(sys, "stdin", io.StringIO("Two\n/save\n"))
    assert run("chat", "-m", container, "--load", tmp_path / "talk.json") == 0
    assert len(json.loads((tmp_path / "talk.json").read_text())["messages"]) == 4
    assert run("chat", "-m", container, "--load", tmp_path / "talk.json", "--system", "x") == 2


def test_chat_tries_again(chat, capsys, monkeypatch, container):
    chat.take("/retry")
    assert "nothing to answer yet" in capsys.readouterr().err
    chat.take("One")
    say(monkeypatch, container, "Good day!")
    chat._engine._model.script = fake_core.FakeEngine.script
    seen = asked(chat, monkeypatch)
    chat.take("/retry")
    assert [m["content"] for m in seen[-1]] == ["One"]
    assert [m["content"] for m in chat._session.messages] == ["One", "Good day!"]
    monkeypatch.setattr(fake_core.FakeGeneration, "next", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    chat.take("/retry")
    assert [m["content"] for m in chat._session.messages] == ["One", "Good day!"]


def test_lines_that_go_on(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("One \\\ntwo\\\nthree\nfour\nend\\"))
    with LineEditor(False, keep=True) as editor:
        assert [editor.read() for _ in range(4)] == ["One \ntwo\nthree", "four", "end\n", None]


def test_thoughts_are_dim_on_a_terminal_that_wants_colour(chat, monkeypatch, container):
    say(monkeypatch, container, "<think>\nhm\n</think>\n\nHello!")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for plain in (False, True):
        if plain:
            monkeypatch.setenv("NO_COLOR", "1")
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        chat.take("Hi")
        assert ("\x1b[2m<think>\nhm\n</think>\x1b[0m" in terminal.getvalue()) != plain


@pytest.mark.parametrize(
    ("text", "begun", "parts"),
    [
        ("Hello", False, (None, "Hello")),
        ("hm\n</think>\n\nHello", True, ("hm", "Hello")),
        ("<think>\nhm\n</think>\n\nHello", False, ("hm", "Hello")),
        ("<think>\nhm", False, ("hm", "")),
        ("hm", True, ("hm", "")),
        ("</think>Hello", True, ("", "Hello")),
    ],
)
def test_split_thinking(text, begun, parts):
    assert split_thinking(text, begun=begun) == parts


def test_begins_thinking():
    assert begins_thinking("<|im_start|>assistant\n<think>\n")
    assert not begins_thinking("<|im_start|>assistant\n<think>\n\n</think>\n\n")


# bench, tables, status line, process


def test_bench_json(container, capsys, monkeypatch):
    assert run("bench", "-m", container, "-p", 40, "-n", 6, "-r", 3, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert [figures["decode_rate"] for figures in report["runs"]] == [5 / 0.25] * 3
    assert report["runs"][0]["prefill_rate"] == 40 / 0.5


def test_bench_table(container, capsys, monkeypatch):
    assert run("bench", "-m", container, "-p", 40, "-n", 6, "-r", 3) == 0
    out = capsys.readouterr().out
    assert "median of 3" in out and "20.00 tok/s" in out and "scripted, buffered reads, context 128" in out


def test_tables_are_aligned_without_a_terminal(capsys):
    print_table([("a", "1"), ("long", "22")], ("name", "value"))
    assert capsys.readouterr().out == "name  value\na         1\nlong     22\n"


def test_tables_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    print_table([("[a]", "1")])
    assert "[a]" in terminal.getvalue()


def test_status_line_appears_late_and_is_wiped(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with StatusLine("quick"):
        pass
    assert terminal.getvalue() == ""
    monkeypatch.setattr("swiftlet.cli.status_line._QUIET_SECONDS", 0.01)
    drawn = threading.Event()
    monkeypatch.setattr(terminal, "write", lambda text, write=terminal.write: (write(text), drawn.set())[0])
    with StatusLine("slow"):
        assert drawn.wait(5)
    assert "slow, 0 s" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


# The real core, with the demo model


def test_info(capsys):
    assert run("info") == 0
    out = capsys.readouterr().out
    assert "8 (6 linear attention, 2 full attention)" in out and "32 a layer, 4 a token" in out
    assert "expert pool" in out


def test_info_json(capsys):
    assert run("info", "demo", "--json", "--context", 512, "--kv", "f32") == 0
    facts = json.loads(capsys.readouterr().out)
    folder = swiftlet.models.resolve("demo")
    assert facts["total_bytes"] == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert facts["quantization"]["bits"] == 4 and facts["num_experts"] == 32
    assert facts["plan"]["context"] == 512


def test_info_refuses_a_ceiling_that_is_too_small(capsys):
    assert run("info", "--memory", "2MB") == 2
    assert "is too small" in capsys.readouterr().err


def test_bench_io(capsys):
    assert run("bench", "io", "--seconds", 0.05, "-r", 2, "--io", "buffered", "--io-threads", 2, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["runs"]) == 2 and report["io_threads"] == 2
    for figures in report["runs"]:
        assert figures["io"] == "buffered" and figures["bytes"] == figures["reads"] * 32768 > 0
    assert run("bench", "io", "--seconds", 0.05, "-r", 1) == 0
    assert "32.8 kB each" in capsys.readouterr().out


def process(*arguments, **options):
    command = [sys.executable, "-m", "swiftlet", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_the_command_as_a_process():
    child = process("generate", "What is the capital of Vietnam?", "-t", 0, "--no-think")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0 and b"Hanoi" in out and b"tok/s" in err


def test_a_reader_that_goes_away():
    child = process("generate", "Once", "--raw", "-n", 200, "-t", 0)
    assert child.stdout.read(1)
    child.stdout.close()
    err = child.stderr.read()
    assert (child.wait(60), err) == (141, b"")


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_ctrl_c_in_a_process():
    child = process("generate", "Once", "--raw", "-n", 3000, "-v", "--seed", 1, "--temperature", 5)
    assert b"process" in child.stderr.readline(), "the plan is printed once the model is loaded"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and err.endswith(b"swiftlet: interrupted\n")


class Person:
    """Types into a chat on a terminal of its own."""

    def __init__(self, *arguments, **environment):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "dumb", **environment})
            os.execv(sys.executable, [sys.executable, "-m", "swiftlet", "chat", *map(str, arguments)])
        self.seen = ""

    def wait_for(self, text):
        while text not in self.seen:
            if not select.select([self.terminal], [], [], 60)[0]:
                pytest.fail(f"{text!r} did not come: {self.seen!r}")
            self.seen += os.read(self.terminal, 4096).decode(errors="replace")
        before, self.seen = self.seen.split(text, 1)
        return before

    def type(self, text):
        time.sleep(0.5)  # a key that comes between the prompt and readline's taking the terminal over can be lost
        os.write(self.terminal, text.encode())

    def leave(self):
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.terminal)
        return status


def test_chat_on_a_terminal(tmp_path):
    options = ["-t", 0, "--no-think", "--state-dir", tmp_path / "states"]
    person = Person(*options, XDG_STATE_HOME=str(tmp_path))
    person.wait_for("> ")
    person.type("What is the capital of Vietnam?\n")
    person.wait_for("Hanoi")
    person.wait_for("> ")
    person.type("\x03")
    person.wait_for("(Ctrl-D leaves)")
    person.type("\x04")
    assert person.leave() == 0
    history = tmp_path / "swiftlet" / "history"
    assert "What is the capital of Vietnam?" in history.read_text() and history.stat().st_mode & 0o777 == 0o600

    person = Person(*options, XDG_STATE_HOME=str(tmp_path))
    person.wait_for("> ")
    person.type("\x1b[A\n")  # the last line again
    person.wait_for("Hanoi")
    person.wait_for("> ")
    person.type("/stats\n")
    assert "cached" in person.wait_for("states: ")
    person.type("Tell me a story.\n")
    person.wait_for("> ")
    os.kill(person.pid, signal.SIGTERM)
    assert person.leave() == 128 + signal.SIGTERM
    assert len(list((tmp_path / "states").glob("*.snapshot"))) >= 2


def test_help_imports_nothing_heavy():
    heavy = "numpy", "tokenizers", "jinja2", "rich"
    code = f"""
import sys
from swiftlet.cli import main
try:
    main(["--help"])
except SystemExit:
    print([name for name in {heavy} if name in sys.modules], file=sys.stderr)
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stderr == "[]\n"
    assert all(name in child.stdout for name in ("generate", "chat", "info", "bench", "repack", "verify"))
