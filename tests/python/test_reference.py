"""The forward pass against mlx-lm in float32, and against itself.

Tolerances are those of the fixtures: hidden states and logits max(1e-3, 10 * noise) absolute, router weights 1e-4,
expert choices and greedy tokens equal. Instruction sets that take the inputs of 4-bit and 8-bit matrices with 16 bits
may be off by 20 times as much (logits here have a standard deviation of 2.5). Within one backend everything else is
equal bit for bit: chunk size, cache size, prefetch, thread count.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reference import CHECKPOINTS, NAMES, forward
from swiftlet import _core
from swiftlet.repack import repack

ISAS = sorted({"reference", _core.cpu_isas()[0]})
Container = Callable[[str], str]


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Container:
    folder = tmp_path_factory.mktemp("containers")

    def make(name: str) -> str:
        path = folder / f"{name}.qpack"
        if not path.exists():
            repack(CHECKPOINTS / name, path)
        return str(path)

    return make


def tolerance(info: dict[str, Any], isa: str = "reference") -> float:
    rounded = isa in ("avx2", "avxvnni", "avx512", "avx512vnni", "amx", "dotprod")
    return max(1e-3, 10 * max(info["float32_noise"].values())) * (20 if rounded else 1)


def run(path: str, ids: NDArray[Any], capture: bool = False, **options: Any) -> dict[str, Any]:
    """What an engine with these options computes for `ids` in a fresh session, and the state it leaves."""
    engine = _core.Engine(path, **{"kv": "f32", "context": 512, "threads": 2, **options})
    session = engine.session()
    out = engine.forward(session, ids.tolist(), capture=capture)
    out["state"] = [engine.state(session, i) for i in range(engine.config["num_hidden_layers"])]
    out["stats"] = engine.stats
    return out


def check_layers(path: str, name: str, **options: Any) -> None:
    """Every layer of the short prompt, its routes and its logits, against mlx-lm."""
    want, info = forward(name)
    got = run(path, want["short.tokens"], capture=True, **options)
    allowed = tolerance(info, options.get("isa", "reference"))
    close = {"rtol": 0, "atol": allowed}
    np.testing.assert_allclose(got["embed"], want["short.embed"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(got["logits"], want["short.logits"], **close)
    for i, hidden in enumerate(got["layers"]):
        np.testing.assert_allclose(hidden, want[f"short.layer.{i}"], **close)
        if got["router_indices"][i] is None:
            assert f"short.router.{i}.indices" not in want
            continue
        np.testing.assert_array_equal(got["router_indices"][i], want[f"short.router.{i}.indices"])
        np.testing.assert_allclose(
            got["router_weights"][i],
            want[f"short.router.{i}.weights"],
            rtol=0,
            atol=max(1e-4, allowed / 10),
        )


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_layers_match_mlx(container: Container, name: str, isa: str) -> None:
    check_layers(container(name), name, isa=isa)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", [n for n in NAMES if any("cache" in key for key in forward(n)[0])])
def test_state_matches_mlx(container: Container, name: str, isa: str) -> None:
    want, info = forward(name)
    state = run(container(name), want["short.tokens"], isa=isa)["state"]
    for key, value in want.items():
        if not key.startswith("short.cache."):
            continue
        _, _, layer, part = key.split(".")
        got = state[int(layer)][part]
        if part in ("keys", "values"):
            got = got.transpose(1, 0, 2)
        np.testing.assert_allclose(got, value, rtol=0, atol=tolerance(info, isa), err_msg=key)


def check_long_prompt(path: str, name: str, **options: Any) -> None:
    """The likeliest token at every position of the long prompt, unless two are level, and its last logits, against
    mlx-lm.
    """
    want, info = forward(name)
    allowed = tolerance(info, options.get("isa", "reference"))
    logits = run(path, want["long.tokens"], **options)["logits"]
    second, first = np.partition(logits, -2, axis=-1)[:, -2:].T
    clear = first - second > allowed
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(logits.argmax(-1)[clear], want["long.argmax"][clear])
    last = want.get("long.logits_last8", want.get("long.logits"))
    assert last is not None
    np.testing.assert_allclose(logits[-len(last) :], last, rtol=0, atol=allowed)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_long_prompt_matches_mlx(container: Container, name: str, isa: str) -> None:
    check_long_prompt(container(name), name, isa=isa)


def check_greedy_answer(path: str, name: str, **options: Any) -> None:
    """The greedy answer to the short prompt, against mlx-lm's."""
    want, _ = forward(name)
    engine = _core.Engine(path, kv="f32", context=512, **options)
    params = _core.SamplingParams()
    params.temperature, params.max_tokens, params.ignore_eos = 0.0, len(want["greedy.tokens"]), True
    generation = engine.generate(engine.session(), want["short.tokens"].tolist(), params)
    tokens = [generation.next().id for _ in want["greedy.tokens"]]
    assert tokens == want["greedy.tokens"].tolist()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_greedy_answer_matches_mlx(container: Container, name: str, isa: str) -> None:
    check_greedy_answer(container(name), name, isa=isa)


def assert_same_bits(a: dict[str, Any], b: dict[str, Any]) -> None:
    np.testing.assert_array_equal(a["logits"].view(np.uint32), b["logits"].view(np.uint32))
    for one, other in zip(a["state"], b["state"], strict=True):
        for part in one:
            np.testing.assert_array_equal(one[part].view(np.uint32), other[part].view(np.uint32))


@pytest.mark.parametrize("kv", ["f32", "f16", "int8"])
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", NAMES)
def test_chunks_change_nothing(container: Container, name: str, isa: str, kv: str) -> None:
    ids = forward(name)[0]["long.tokens"]
    whole = run(container(name), ids, isa=isa, kv=kv, chunk=512)
    for chunk in (1, 7, 64):
        assert_same_bits(run(container(name), ids, isa=isa, kv=kv, chunk=chunk), whole)


@pytest.mark.parametrize("name", NAMES)
def test_cache_and_threads_change_nothing(container: Container, name: str) -> None:
    ids = forward(name)[0]["long.tokens"]
    full = run(container(name), ids, chunk=64, threads=1)
    assert full["stats"]["evictions"] == 0
    k = full_top_k(container(name))
    for options in (
        {"pool_slots": k},  # every token evicts
        {"pool_slots": k + 3, "io_threads": 1},
        {"pool_slots": k + 1, "prefetch": "on"},
        {"threads": 3, "io": "buffered"},
        {"io": "direct", "prefetch": "on"},
    ):
        assert_same_bits(run(container(name), ids, **{"chunk": 64, **options}), full)
        assert_same_bits(run(container(name), ids[:40], **{"chunk": 1, **options}), run(container(name), ids[:40]))


def full_top_k(path: str) -> int:
    return int(_core.Engine(path, context=16).config["num_experts_per_tok"])


@pytest.mark.parametrize(("kv", "limit"), [("f16", 0.02), ("int8", 0.25)])
@pytest.mark.parametrize("name", NAMES)
def test_small_kv_rows_stay_near(container: Container, name: str, kv: str, limit: float) -> None:
    """Rounded KV rows: logits of magnitude 10 move by at most `limit` on positions whose experts do not flip."""
    ids = forward(name)[0]["short.tokens"]
    exact = run(container(name), ids, capture=True)
    rounded = run(container(name), ids, capture=True, kv=kv)
    same = np.ones(len(ids), bool)
    for a, b in zip(exact["router_indices"], rounded["router_indices"], strict=True):
        if a is not None:
            same &= (np.sort(a, -1) == np.sort(b, -1)).all(-1)
    assert same.mean() >= 0.8
    assert np.abs(exact["logits"] - rounded["logits"])[same].max() <= limit


@pytest.mark.parametrize("bits", [4, 8])
def test_a_whole_model_of_few_bits(tmp_path: Path, bits: int) -> None:
    """Head and embedding in one, experts in slots, all of them quantized: as the reference computes it."""
    path, isa = tmp_path / "model.qpack", _core.cpu_isas()[0]
    want, info = forward("next-hf-f32")
    repack(CHECKPOINTS / "next-hf-f32", path, bits=bits)
    exact = run(str(path), want["short.tokens"], capture=True, isa="reference")
    got = run(str(path), want["short.tokens"], capture=True, isa=isa)
    np.testing.assert_array_equal(got["embed"], exact["embed"])
    np.testing.assert_allclose(got["logits"], exact["logits"], rtol=0, atol=tolerance(info, isa))


def test_every_committed_fixture_is_used() -> None:
    assert len(NAMES) >= 11
    assert {p.stem for p in (Path(CHECKPOINTS).parent / "forward").iterdir()} == set(NAMES)
