"""The forward pass on the GPUs of this build, against mlx-lm in float32 and against the CPU backend.

In a build for tests that is the GPU in software (backend "emulated"); on a Mac and on a machine with an NVIDIA card it
is theirs. Tolerances are those of the fixtures, as for the CPU. On one GPU, cache size, prefetch and the order in which
experts arrive change no bit.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import counting_model
from reference import NAMES, forward
from swiftlet import _core
from test_reference import (
    Container,
    assert_same_bits,
    check_greedy_answer,
    check_layers,
    check_long_prompt,
    container,
    run,
    tolerance,
)

GPUS = [name for name in _core.backends() if name != "cpu"]
pytestmark = pytest.mark.skipif(not GPUS, reason="this build knows no GPU that this machine has")

__all__ = ["container"]  # a fixture


@pytest.mark.parametrize("backend", GPUS)
@pytest.mark.parametrize("name", NAMES)
def test_layers_match_mlx(container: Container, name: str, backend: str) -> None:
    check_layers(container(name), name, backend=backend)


@pytest.mark.parametrize("backend", GPUS)
@pytest.mark.parametrize("name", NAMES)
def test_long_prompt_matches_mlx(container: Container, name: str, backend: str) -> None:
    check_long_prompt(container(name), name, backend=backend)


@pytest.mark.parametrize("backend", GPUS)
@pytest.mark.parametrize("name", NAMES)
def test_greedy_answer_matches_mlx(container: Container, name: str, backend: str) -> None:
    check_greedy_answer(container(name), name, backend=backend)


@pytest.mark.parametrize("backend", GPUS)
@pytest.mark.parametrize("name", NAMES[:2])
@pytest.mark.parametrize("kv", ["f32", "f16", "int8"])
def test_state_equals_the_cpu(container: Container, name: str, kv: str, backend: str) -> None:
    want, info = forward(name)
    for tokens in (want["short.tokens"], want["short.tokens"][:1]):
        cpu = run(container(name), tokens, kv=kv, backend="cpu", isa="reference")
        gpu = run(container(name), tokens, kv=kv, backend=backend)
        np.testing.assert_allclose(gpu["logits"], cpu["logits"], rtol=0, atol=tolerance(info))
        for one, other in zip(gpu["state"], cpu["state"], strict=True):
            for part in one:
                # f16 and int8 may round to a neighbour where the values differ by less than a step.
                step = {"f32": 0, "f16": 1e-2, "int8": 5e-2}[kv] if part in ("keys", "values") else 0
                np.testing.assert_allclose(one[part], other[part], rtol=0, atol=max(tolerance(info), step))


def pools(path: str) -> list[dict[str, Any]]:
    """Options under which experts come and go in as many ways as there are."""
    config = _core.Engine(path, backend="cpu").config
    k, experts = config["num_experts_per_tok"], config["num_experts"]
    return [
        {"pool_slots": k},
        {"pool_slots": k + 1, "prefetch": "on"},
        {"pool_slots": experts + k, "io_threads": 1},
        {"prefetch": "on"},
    ]


@pytest.mark.parametrize("backend", GPUS)
@pytest.mark.parametrize("name", NAMES[:2])
def test_streaming_changes_no_bit(container: Container, name: str, backend: str) -> None:
    """A cached expert equals one from disk, also where the backend follows its own routes without a wait."""
    want, _ = forward(name)
    path = container(name)
    for tokens in (want["short.tokens"][:9], want["long.tokens"][:50]):
        chunks = {"chunk": 9} if len(tokens) == 9 else {}
        resident = run(path, np.concatenate([tokens, tokens]), backend=backend, **chunks)
        for options in pools(path):
            assert_same_bits(
                run(path, np.concatenate([tokens, tokens]), backend=backend, **chunks, **options), resident
            )


@pytest.mark.parametrize("backend", GPUS)
@pytest.mark.parametrize("name", NAMES[:2])
def test_chunks_agree(container: Container, name: str, backend: str) -> None:
    """Chunks of a few tokens are multiplied as vectors and longer ones by tiles: equal to rounding, not to the bit."""
    want, info = forward(name)
    tokens = want["long.tokens"][:70]
    whole = run(container(name), tokens, backend=backend)
    for chunk in (1, 7, 20, 33, 64):
        pieces = run(container(name), tokens, backend=backend, chunk=chunk)
        np.testing.assert_allclose(pieces["logits"], whole["logits"], rtol=0, atol=tolerance(info))


@pytest.mark.parametrize("backend", GPUS)
@pytest.mark.parametrize("name", NAMES[:2])
def test_layers_of_a_pass_that_was_cut_off_are_waited_for(container: Container, name: str, backend: str) -> None:
    """What they queued uses the state, which may be cleared or freed at once, and must not write to it later."""
    tokens = forward(name)[0]["short.tokens"].tolist()
    engine = _core.Engine(container(name), backend=backend, kv="f32", context=512)
    want = engine.forward(engine.session(), tokens)["logits"]
    for again in ("reset", "another session"):
        asked = [False, True]  # before the first layer, and before the second
        session = engine.session()
        with pytest.raises(_core.CancelledError):
            engine.forward(session, tokens[::-1], interrupt=lambda asked=asked: asked.pop(0))
        if again == "reset":
            session.reset()
        else:
            del session
            session = engine.session()
        got = engine.forward(session, tokens)["logits"]
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def token_counts(engine: _core.Engine, session: _core.Session, token: int) -> dict[str, int]:
    """What one decoded token adds to the counters."""
    before = engine.stats
    engine.forward(session, [token])
    after = engine.stats
    return {key: after[key] - before[key] for key in ("dispatches", "waits", "misses")}


@pytest.mark.parametrize("backend", GPUS)
@pytest.mark.parametrize("name", NAMES[:2])
def test_a_resident_model_decodes_with_one_wait(container: Container, name: str, backend: str) -> None:
    engine = _core.Engine(container(name), backend=backend, context=1024)
    session = engine.session()
    layers = engine.config["num_hidden_layers"]
    for start in range(0, 900, 100):  # until every expert has been asked for
        engine.forward(session, [(start + i) % engine.config["vocab_size"] for i in range(100)])
        if engine.stats["pool_bytes"] == engine.plan["pool"]:
            break
    assert engine.stats["pool_bytes"] == engine.plan["slots"] * engine.stats["slot_bytes"]
    counts = token_counts(engine, session, 1)
    assert counts["waits"] == 1
    assert counts["misses"] == 0

    cold = _core.Engine(container(name), backend=backend, pool_slots=engine.config["num_experts_per_tok"])
    session = cold.session()
    cold.forward(session, [1])
    counts = token_counts(cold, session, 2)
    assert counts["misses"] > 0
    assert counts["waits"] <= layers + 1


# The structure of Qwen3.6-35B-A3B

MOST_DISPATCHES = 600  # of a decoded token


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("counting") / "35b.qpack"
    counting_model.write(folder)
    return str(folder)


@pytest.mark.parametrize("backend", GPUS)
def test_a_token_of_the_35b_takes_one_wait_when_all_is_resident(counting: str, backend: str) -> None:
    engine = _core.Engine(counting, backend=backend, context=256, threads=2)
    session = engine.session()
    engine.forward(session, list(range(counting_model.GROUPS)))  # each expert of each layer once
    assert engine.stats["pool_bytes"] == engine.plan["experts_total"] * engine.stats["slot_bytes"]
    params = _core.SamplingParams()
    params.temperature, params.max_tokens, params.ignore_eos = 0.0, 3, True
    generation = engine.generate(session, [3], params)
    tokens = [generation.next().id]
    before = engine.stats
    tokens += [generation.next().id]
    after = engine.stats
    assert tokens == [4, 5]
    assert after["misses"] == before["misses"]
    assert after["waits"] - before["waits"] == 1
    assert after["dispatches"] - before["dispatches"] <= MOST_DISPATCHES


@pytest.mark.parametrize("backend", GPUS)
def test_a_token_of_the_35b_takes_one_wait_a_layer_when_it_streams(counting: str, backend: str) -> None:
    layers, k = counting_model.SHAPE.num_hidden_layers, counting_model.SHAPE.num_experts_per_tok
    engine = _core.Engine(counting, backend=backend, context=256, threads=2, pool_slots=layers * (k + 2))
    session = engine.session()

    def decode(token: int) -> dict[str, int]:
        before = engine.stats
        out = engine.forward(session, [token])
        assert out["logits"].argmax() == (token + 1) % counting_model.GROUPS
        return {key: engine.stats[key] - before[key] for key in ("dispatches", "waits", "hits", "misses")}

    # None is there; all but one are; none is, and others make way.
    for token, hits in ((3, 0), (counting_model.GROUPS + 3, k - 1), (20, 0)):
        counts = decode(token)
        assert (counts["hits"], counts["misses"]) == (layers * hits, layers * (k - hits))
        assert counts["waits"] == layers + 1
        # A card with memory of its own has the lists for its kernels copied there, for hits and misses.
        assert counts["dispatches"] <= MOST_DISPATCHES + (2 * layers if backend == "cuda" else 0)


# A card with memory of its own: experts in host memory beside it


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> str:
    if "cuda" in GPUS:
        return "cuda"
    if "emulated" not in GPUS:
        pytest.skip("no GPU here has memory of its own")
    monkeypatch.setenv("SWIFTLET_EMULATED_CARD", "1")
    return "emulated"


def test_host_memory_changes_no_bit(container: Container, card: str) -> None:
    name = NAMES[0]
    path = container(name)
    k = _core.Engine(path, backend="cpu").config["num_experts_per_tok"]
    tokens = forward(name)[0]["long.tokens"][:50]
    want = run(path, tokens, backend=card)
    plan = _core.plan(path, backend=card)
    slot, experts = plan["slot_bytes"], plan["experts_total"]
    for host in (0, 4 * slot, (experts // 2 + 2) * slot, (experts + 4) * slot):
        for prefetch in ("off", "on"):
            options = {"host_memory": host, "pool_slots": k + 1, "prefetch": prefetch, "chunk": 9, "io_threads": 2}
            streamed = run(path, tokens, backend=card, **options)
            whole = run(path, tokens, backend=card, chunk=9)
            assert_same_bits(streamed, whole)
    assert_same_bits(run(path, tokens, backend=card, host_memory=64 * slot), want)


def test_nothing_is_read_twice_when_host_memory_holds_all(container: Container, card: str) -> None:
    path = container(NAMES[0])
    plan = _core.plan(path, backend=card)
    host = (plan["experts_total"] + 16) * plan["slot_bytes"]
    engine = _core.Engine(path, backend=card, context=256, pool_slots=2, host_memory=10 * host)
    assert engine.plan["host"] == engine.stats["host_memory"] == host
    assert "host memory" in engine.plan["text"]
    assert engine.plan["ceiling"] > 0
    session = engine.session()
    tokens = list(range(20))
    engine.forward(session, tokens)
    before = engine.stats
    assert before["bytes_read"] > 0
    session.reset()
    engine.forward(session, tokens)
    after = engine.stats
    assert after["bytes_read"] == before["bytes_read"]
    assert after["host_hits"] > before["host_hits"]
    assert after["host_bytes"] == after["host_hits"] * engine.stats["slot_bytes"]


def test_a_prefill_that_was_cut_off_leaves_host_memory_in_order(container: Container, card: str) -> None:
    path = container(NAMES[0])
    tokens = list(range(40))
    want = run(path, np.array(tokens), backend=card, chunk=40)["logits"]
    slot = _core.plan(path, backend=card)["slot_bytes"]
    engine = _core.Engine(
        path, backend=card, kv="f32", context=512, chunk=40, pool_slots=2, io_threads=2, host_memory=5 * slot
    )
    session = engine.session()
    for layers in range(2):
        asked = [False] * layers + [True] * 100
        with pytest.raises(_core.CancelledError):
            engine.forward(session, tokens[::-1], interrupt=lambda asked=asked: asked.pop(0))
        session.reset()
    got = engine.forward(session, tokens)["logits"]
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def test_host_memory_that_cannot_be_is_refused(container: Container, card: str) -> None:
    path = container(NAMES[0])
    with pytest.raises(_core.InputError, match="memory of its own"):
        _core.Engine(path, backend="cpu", host_memory=10**9)
    with pytest.raises(_core.MemoryLimitError, match="too small"):
        _core.Engine(path, backend=card, host_memory=1)
