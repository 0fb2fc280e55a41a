"""Snapshots of a conversation's state: what comes back is the same bit for bit, and how much is kept."""

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import CHECKPOINTS, NAMES
from swiftlet import _core
from swiftlet.models import resolve
from swiftlet.repack import repack

DEMO = str(resolve("demo"))
FAMILIES = [next(name for name in NAMES if name.startswith(family)) for family in ("next", "q35")]
Container = Callable[[str], str]
Boundaries = Sequence[tuple[int, bool]]


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Container:
    folder = tmp_path_factory.mktemp("containers")

    def make(name: str) -> str:
        if name == "demo":
            return DEMO
        path = folder / f"{name}.qpack"
        if not path.exists():
            repack(CHECKPOINTS / name, path)
        return str(path)

    return make


def load(path: str = DEMO, **options: Any) -> _core.Engine:
    return _core.Engine(path, **{"context": 256, "threads": 1, "state_memory": 10**9, **options})


def text(seed: int, length: int, engine: _core.Engine) -> list[int]:
    """Token ids that stand for a prompt."""
    return np.random.default_rng(seed).integers(0, engine.config["vocab_size"], length).tolist()


class Talk:
    """An engine and its session, as the Python layer has them."""

    def __init__(self, engine: _core.Engine) -> None:
        self.engine, self.session = engine, engine.session()
        self.cached = -1

    def say(self, ids: list[int], *ends: int, passing: Boundaries = (), tokens: int = 4) -> list[int]:
        params = _core.SamplingParams()
        params.max_tokens, params.temperature, params.ignore_eos = tokens, 0.0, True
        boundaries = [*((end, False) for end in ends), *passing]
        generation = self.engine.generate(self.session, ids, params, boundaries)
        answer = [generation.next().id for _ in range(tokens)]
        self.cached = generation.stats["cached_tokens"]
        assert generation.stats["prompt_tokens"] == len(ids)
        assert self.engine.stats["snapshot_bytes"] <= self.engine.plan["snapshots"]
        return answer

    def cut(self, ids: list[int], *ends: int, after: int) -> None:
        """A prefill that is cancelled after some layers."""
        params = _core.SamplingParams()
        generation = self.engine.generate(self.session, ids, params, [(end, False) for end in ends])
        layers = iter(range(after))
        with pytest.raises(_core.CancelledError):
            generation.next(lambda: next(layers, None) is None)

    def state(self) -> list[Any]:
        layers = [self.engine.state(self.session, i) for i in range(self.engine.config["num_hidden_layers"])]
        return [layer[name] for layer in layers for name in sorted(layer)]


def cold(path: str, ids: list[int], tokens: int = 4, **options: Any) -> tuple[list[int], list[Any]]:
    """What an engine without snapshots answers, and the state that it has then."""
    talk = Talk(load(path, **{**options, "state_memory": 0, "state_dir": ""}))
    return talk.say(ids, tokens=tokens), talk.state()


def assert_equal(got: list[Any], want: list[Any]) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


# The same bits


@pytest.mark.parametrize("kv", ["f16", "f32", "int8"])
@pytest.mark.parametrize("name", ["demo", *FAMILIES])
@pytest.mark.parametrize("disk", [False, True])
def test_what_comes_back_is_the_same(container: Container, tmp_path: Path, name: str, kv: str, disk: bool) -> None:
    path = container(name)
    options = {"state_memory": 0, "state_dir": str(tmp_path)} if disk else {}
    talk = Talk(load(path, kv=kv, chunk=7, **options))
    first, other = text(1, 40, talk.engine), text(2, 50, talk.engine)
    talk.say(first, 30)
    talk.say(other, 45)
    assert talk.cached == 0
    follow_up = first[:30] + text(3, 25, talk.engine)
    answer = talk.say(follow_up, 50)
    assert talk.cached == 30
    want, state = cold(path, follow_up, kv=kv)
    assert answer == want
    assert_equal(talk.state(), state)
    logits = talk.engine.forward(talk.session, [1, 2, 3])["logits"]
    fresh = Talk(load(path, kv=kv))
    fresh.say(follow_up)
    np.testing.assert_array_equal(logits, fresh.engine.forward(fresh.session, [1, 2, 3])["logits"])


@pytest.mark.parametrize("memory", [10**9, 2 * 10**6, 0])
def test_a_a_b_a(tmp_path: Path, memory: int) -> None:
    talk = Talk(load(state_memory=memory, state_dir=str(tmp_path), chunk=32))
    a, b = text(1, 60, talk.engine), text(2, 70, talk.engine)
    want_a, want_b = cold(DEMO, a)[0], cold(DEMO, b)[0]
    for prompt, want in ((a, want_a), (a, want_a), (b, want_b), (a, want_a), (b, want_b)):
        assert talk.say(prompt, 50) == want
    assert talk.cached == 50
    for layers in (1, 3, 13):
        talk.cut(text(4, 80, talk.engine), 20, 40, after=layers)
        assert not talk.session.valid
        assert talk.say(a, 50) == want_a and talk.cached == 50
    talk.engine.save_states(talk.session)
    talk = Talk(load(state_memory=memory, state_dir=str(tmp_path)))
    for prompt, want in ((a, want_a), (b, want_b), (a, want_a)):
        assert talk.say(prompt, 50) == want and talk.cached == 50
    assert talk.engine.take_warnings() == []


def test_a_cancelled_prefill_goes_on_where_it_was(container: Container) -> None:
    talk = Talk(load(chunk=30))
    prompt = text(1, 100, talk.engine)
    layers = talk.engine.config["num_hidden_layers"]
    talk.cut(prompt, 30, 60, 90, after=2 * layers + 2)
    answer = talk.say(prompt, 90)
    assert talk.cached == 60
    want, state = cold(DEMO, prompt)
    assert answer == want
    assert_equal(talk.state(), state)


def test_a_long_prefill_leaves_snapshots_behind() -> None:
    talk = Talk(load(context=4096, chunk=512))
    prompt = text(1, 3000, talk.engine)
    talk.say(prompt, tokens=1)
    assert talk.engine.stats["snapshots"] == 2  # of those in the middle only the last two stay
    talk.say(prompt[:2900] + text(2, 50, talk.engine), tokens=1)
    assert talk.cached == 2048
    talk.engine.forget()
    talk.say(prompt[:2500], tokens=1)
    talk.say(text(3, 10, talk.engine), tokens=1)
    talk.say(prompt, tokens=1)
    assert talk.cached == 2500


def test_a_snapshot_costs_no_reads() -> None:
    misses = []
    for ends in ((), (10, 25), (5, 6, 15, 29)):
        talk = Talk(load(pool_slots=16, chunk=64))
        prompt = text(1, 30, talk.engine)
        answer = talk.say(prompt, *ends, tokens=1)
        misses.append(talk.engine.stats["misses"])
        for end in ends:
            follow_up = prompt[:end] + text(2, 10, talk.engine)
            talk.say(follow_up, tokens=1)
            assert talk.cached == end
            assert_equal(talk.state(), cold(DEMO, follow_up, tokens=1)[1])
        assert answer == cold(DEMO, prompt, tokens=1)[0]
    assert misses[0] == misses[1] == misses[2]


# What is kept


def test_an_answer_is_continued_where_it_ended() -> None:
    talk = Talk(load())
    a, b = text(1, 40, talk.engine), text(2, 40, talk.engine)
    said = a + talk.say(a, 30)[:-1]
    talk.say(b, 30)
    answer = talk.say(said + text(3, 10, talk.engine), len(said) + 5)
    assert talk.cached == len(said)  # parked when b came
    assert answer == cold(DEMO, said + text(3, 10, talk.engine))[0]
    talk.say(a[:35], 30)
    assert talk.cached == 30


def test_an_answer_that_is_told_anew_is_not_kept() -> None:
    talk = Talk(load())
    a = text(1, 40, talk.engine)
    for _ in range(3):
        talk.say(a, 30)
    assert talk.engine.stats["snapshots"] == 1


def test_the_least_recently_used_goes_first() -> None:
    one = Talk(load())
    prompts = [text(i, 100, one.engine) for i in range(4)]
    one.say(prompts[0], 90, tokens=1)
    one.session.reset()
    size = one.engine.stats["snapshot_bytes"]
    talk = Talk(load(state_memory=2 * size + size // 2))
    for i in (0, 1, 0, 2):
        talk.say(prompts[i], 90, tokens=1)
    for i, cached in ((0, 90), (2, 90), (1, 0)):
        talk.say(prompts[i], tokens=1)
        assert talk.cached == cached


def test_the_last_turn_outlives_the_parked_answer() -> None:
    one = Talk(load())
    a, b = text(1, 100, one.engine), text(2, 100, one.engine)
    one.say(a, 90)
    one.session.reset()
    talk = Talk(load(state_memory=2 * one.engine.stats["snapshot_bytes"] + 50_000))
    said = a + talk.say(a, 90)[:-1]
    talk.say(b, 90)
    talk.say(said + b, 110)
    assert talk.cached == 90


def test_places_in_passing_make_way() -> None:
    talk = Talk(load())
    prompt = text(1, 100, talk.engine)
    for i in range(5):
        talk.say(prompt[: 50 + 10 * i], 20, passing=[(45 + 10 * i, True)], tokens=1)
    assert talk.engine.stats["snapshots"] == 3  # the turn and two in passing
    talk.say(prompt[:25], tokens=1)
    assert talk.cached == 20


def test_no_memory_no_snapshots() -> None:
    talk = Talk(load(state_memory=0))
    a, b = text(1, 40, talk.engine), text(2, 40, talk.engine)
    talk.say(a, 30)
    talk.say(b, 30)
    talk.say(a, 30)
    assert talk.cached == 0 and talk.engine.stats["snapshots"] == 0 and talk.engine.stats["snapshot_bytes"] == 0


def test_the_budget_is_never_exceeded(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    engine = load(state_memory=3_000_000, state_dir=str(tmp_path), state_disk=6_000_000)
    talks = [Talk(engine), Talk(engine)]
    prompts = [text(i, 120, engine) for i in range(5)]
    want = [[cold(DEMO, prompt[:length], tokens=2)[0] for length in range(20, 121, 20)] for prompt in prompts]
    for _ in range(120):
        talk, which, step = talks[random.integers(2)], int(random.integers(5)), int(random.integers(1, 7))
        prompt = prompts[which][: 20 * step]
        if random.random() < 0.15:
            talk.cut(prompt, len(prompt) - 5, after=int(random.integers(1, 8)))
            continue
        ends = sorted(random.integers(1, len(prompt), 2).tolist())
        assert talk.say(prompt, *ends, tokens=2) == want[which][step - 1]
        if random.random() < 0.05:
            talk.session.reset()
        stats = engine.stats
        files = list(tmp_path.iterdir())
        assert stats["snapshots_on_disk"] == len(files)
        assert stats["snapshot_disk_bytes"] == sum(file.stat().st_size for file in files) <= 6_000_000
    del talk, talks
    assert engine.take_warnings() == []
    engine.forget()
    stats = engine.stats
    assert stats["snapshots"] == stats["snapshot_bytes"] == stats["snapshots_on_disk"] == 0
    assert list(tmp_path.iterdir()) == []


def test_snapshots_of_a_session_outlive_it() -> None:
    engine = load()
    talk = Talk(engine)
    a = text(1, 60, engine)
    answer = talk.say(a, 50)
    del talk
    other = Talk(engine)
    assert other.say(a, 50) == answer and other.cached == 50


def test_sessions_lend_rows_to_each_other() -> None:
    engine = load()
    one, two = Talk(engine), Talk(engine)
    a = text(1, 60, engine)
    one.say(a, 50)
    follow_up = a[:50] + text(2, 20, engine)
    answer = two.say(follow_up, 60)
    assert two.cached == 50
    want, state = cold(DEMO, follow_up)
    assert answer == want
    assert_equal(two.state(), state)


def test_sessions_in_threads(tmp_path: Path) -> None:
    engine = load(state_memory=2_000_000, state_dir=str(tmp_path))
    prompts = [text(i, 60, engine) for i in range(4)]
    want = [cold(DEMO, prompt)[0] for prompt in prompts]
    wrong: list[Any] = []
    done = threading.Event()

    def talk(first: int) -> None:
        try:
            mine = Talk(engine)
            for i in range(12):
                which = (first + i) % 4
                if i % 5 == 4:
                    mine.cut(prompts[which], 50, after=3)
                elif mine.say(prompts[which], 50) != want[which]:
                    wrong.append(which)
        except BaseException as error:
            wrong.append(error)

    def watch() -> None:
        while not done.wait(0.001):
            if engine.stats["snapshot_bytes"] > 2_000_000:
                wrong.append("more than the budget")

    threads = [threading.Thread(target=talk, args=(i,)) for i in range(3)]
    watcher = threading.Thread(target=watch)
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    assert wrong == []
    assert engine.take_warnings() == []


def test_a_session_may_end_while_another_computes() -> None:
    engine = load()
    computing, dropped = threading.Event(), threading.Event()

    def interrupt() -> bool:
        computing.set()
        dropped.wait(0.05)  # lets the other thread drop its session, which waits for this computation
        return False

    def talk(session: _core.Session) -> None:
        params = _core.SamplingParams()
        params.max_tokens = 1
        engine.generate(session, text(1, 60, engine), params).next(interrupt)

    thread = threading.Thread(target=talk, args=(engine.session(),))
    second = engine.session()
    thread.start()
    assert computing.wait(60)
    del second
    dropped.set()
    thread.join(60)
    assert not thread.is_alive()


# On disk


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, list[int], list[int]]:
    """A folder with one snapshot of 50 tokens, a prompt that continues it, and the answer."""
    folder = tmp_path / "states"
    talk = Talk(load(state_dir=str(folder)))
    prompt = text(1, 60, talk.engine)
    answer = talk.say(prompt, 50)
    talk.session.reset()
    talk.engine.save_states(talk.session)
    assert [file.suffix for file in folder.iterdir()] == [".snapshot"]
    return folder, prompt, answer


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_the_folder_is_private(saved: tuple[Path, list[int], list[int]]) -> None:
    folder, _, _ = saved
    assert folder.stat().st_mode & 0o777 == 0o700 and only_file(folder).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", [0, 8, 17, 24, 32, 40, 48, 56, 64, 64 + 4 * 50 + 1000, -1])
def test_a_damaged_file_is_refused(saved: tuple[Path, list[int], list[int]], place: int) -> None:
    folder, prompt, answer = saved
    file = only_file(folder)
    data = bytearray(file.read_bytes())
    data[place] ^= 0x10
    file.write_bytes(data)
    talk = Talk(load(state_dir=str(folder)))
    assert talk.say(prompt, 50) == answer and talk.cached == 0
    (warning,) = talk.engine.take_warnings()
    assert str(file) in warning and "\n" not in warning
    assert (
        ("damaged" in warning) or (place == 0 and "not a snapshot" in warning) or (place == 8 and "version" in warning)
    )
    assert file.read_bytes() == data or place > 63  # what it is not sure about, it leaves alone


@pytest.mark.parametrize("length", [0, 1, 63, 64, 100, 264, 5000, -1])
def test_a_truncated_file_is_refused(saved: tuple[Path, list[int], list[int]], length: int) -> None:
    folder, prompt, answer = saved
    file = only_file(folder)
    file.write_bytes(file.read_bytes()[:length])
    talk = Talk(load(state_dir=str(folder)))
    assert talk.say(prompt, 50) == answer and talk.cached == 0
    assert str(file) in talk.engine.take_warnings()[0]


def test_a_file_that_is_cut_or_goes_while_in_use(saved: tuple[Path, list[int], list[int]]) -> None:
    folder, prompt, answer = saved
    file = only_file(folder)
    data = file.read_bytes()
    talk = Talk(load(state_dir=str(folder), state_memory=0))
    file.write_bytes(data[:-10])
    assert talk.say(prompt) == answer and talk.cached == 0
    assert "damaged" in talk.engine.take_warnings()[0]
    file.write_bytes(data)
    talk = Talk(load(state_dir=str(folder), state_memory=0))
    file.unlink()
    assert talk.say(prompt) == answer and talk.cached == 0
    assert talk.engine.take_warnings() == []  # another process has tidied up


def test_another_version_is_refused(saved: tuple[Path, list[int], list[int]]) -> None:
    folder, prompt, answer = saved
    file = only_file(folder)
    data = file.read_bytes()
    file.write_bytes(data[:8] + (7).to_bytes(4, "little") + data[12:])
    talk = Talk(load(state_dir=str(folder)))
    assert talk.say(prompt, 50) == answer and talk.cached == 0
    assert "version 7, but this Swiftlet reads version 1" in talk.engine.take_warnings()[0]


@pytest.mark.parametrize("other", ["model", "kv", "isa"])
def test_a_foreign_file_is_refused(
    saved: tuple[Path, list[int], list[int]], container: Container, tmp_path: Path, other: str
) -> None:
    folder, prompt, _ = saved
    path, options = DEMO, {}
    if other == "model":  # the same shapes, other weights
        path = str(shutil.copytree(DEMO, tmp_path / "other.qpack"))
        weights = Path(path) / "packed_experts" / "layer_00.bin"
        weights.write_bytes(bytes(b ^ 1 for b in weights.read_bytes()))
    elif other == "kv":
        options = {"kv": "f32"}
    else:
        options = {"isa": "reference"}
    talk = Talk(load(path, state_dir=str(folder), **options))
    talk.say(prompt, 50)
    assert talk.cached == 0
    (warning,) = talk.engine.take_warnings()
    assert warning.startswith("1 snapshot(s) in ") and "another model" in warning
    talk.engine.save_states(talk.session)
    talk = Talk(load(state_dir=str(folder)))
    talk.say(prompt)
    assert talk.cached == 50


def test_strangers_in_the_folder(saved: tuple[Path, list[int], list[int]]) -> None:
    folder, prompt, answer = saved
    (folder / "notes.txt").write_text("mine")
    (folder / "a.snapshot").mkdir()
    (folder / "link.snapshot").symlink_to("/dev/zero")
    talk = Talk(load(state_dir=str(folder)))
    assert talk.say(prompt) == answer and talk.cached == 50
    assert talk.engine.take_warnings() == []
    talk.engine.forget()
    assert sorted(p.name for p in folder.iterdir()) == ["a.snapshot", "link.snapshot", "notes.txt"]


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(_core.InputError, match="file cannot be used: Not a directory"):
        load(state_dir=str(tmp_path / "file"))


def test_a_full_disk_costs_only_the_snapshot(tmp_path: Path) -> None:
    import resource

    talk = Talk(load(state_dir=str(tmp_path), state_memory=0))
    prompt = text(1, 60, talk.engine)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        answer = talk.say(prompt, 50)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot be written" in talk.engine.take_warnings()[0]
    assert list(tmp_path.iterdir()) == []
    assert talk.say(prompt, 50) == answer == cold(DEMO, prompt)[0]


def test_the_folder_keeps_to_its_budget_across_restarts(saved: tuple[Path, list[int], list[int]]) -> None:
    folder, prompt, _ = saved
    size = only_file(folder).stat().st_size
    talk = Talk(load(state_dir=str(folder), state_disk=size + size // 2, state_memory=0))
    talk.say(text(5, 60, talk.engine), 50, tokens=1)
    assert only_file(folder).stat().st_size == size
    talk.say(prompt, tokens=1)
    assert talk.cached == 0
