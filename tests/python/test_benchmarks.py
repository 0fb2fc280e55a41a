"""The benchmark tools: what they measure must be right before what they say can be believed."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
REFERENCE = Path(__file__).parents[1] / "data" / "reference"
sys.path.insert(0, str(BENCHMARKS))

import make_synthetic  # noqa: E402
import memrun  # noqa: E402
import numpy_forward  # noqa: E402
from policy_simulator import Belady, Lfu, LfuDecay, Lru, Pool, decode_hits, replay  # noqa: E402
from synthetic_model import Model, Shape, from_bf16, to_bf16  # noqa: E402
from synthetic_text import Topics, token_script  # noqa: E402
from traces import Chunk, Routing, Text, Trace, decode, overlap, prefill, read_trace, trace_of, write_trace  # noqa: E402

TINY = {
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 4096,
    "first_special": 4000,
    "hidden_size": 512,
    "head_dim": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "max_position_embeddings": 1024,
}


def tiny_model(model_type="qwen3_5_moe", **changes):
    topics = Topics(topics=8, passages=8, themes=4)
    return Model(Shape(model_type, 4, **TINY), topics=topics, code_pool=4 << 20, **changes)


@pytest.fixture(scope="module", params=["qwen3_5_moe", "qwen3_next"])
def qpack(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic") / f"{request.param}.qpack"
    make_synthetic.make(tiny_model(request.param), folder, "qpack", hashed=True)
    return folder


def single_tokens(requests, experts):
    """A trace of one layer from lists of ids."""
    chunks = [Chunk(1, [(0, np.array(ids, np.int32), np.ones(len(ids), np.int32))]) for ids in requests]
    return Trace(1, experts, chunks)


def hits(trace, slots, policy):
    asked = sum(len(ids) for chunk in trace.chunks for _, ids, _ in chunk.requests)
    rates = replay(trace, [Pool(slots, policy)])
    return round(sum(r * len(c.requests[0][1]) for r, c in zip(rates, trace.chunks, strict=True))), asked


class TestSynthetic:
    def test_container_passes_verify(self, qpack):
        repack = pytest.importorskip("swiftlet.repack")
        assert repack.verify(qpack).problems == []

    def test_manifest_lists_every_file_with_its_size(self, qpack):
        files = json.loads((qpack / "manifest.json").read_text())["files"]
        for name, size in files.items():
            assert (qpack / name).stat().st_size == size
        present = {str(path.relative_to(qpack)) for path in qpack.rglob("*") if path.is_file()}
        assert present - files.keys() == {"manifest.json", "hashes.json", make_synthetic.MARKER}

    def test_experts_differ(self, qpack):
        stride = json.loads((qpack / "packed_experts/layout.json").read_text())["expertStride"]
        blobs = [
            path.read_bytes()[e * stride : (e + 1) * stride]
            for path in sorted((qpack / "packed_experts").glob("*.bin"))
            for e in range(TINY["num_experts"])
        ]
        assert len(set(blobs)) == len(blobs) == 4 * TINY["num_experts"]

    def test_same_seed_same_bytes(self, qpack, tmp_path):
        model_type = qpack.stem
        for seed, same in ((1, True), (2, False)):
            make_synthetic.make(tiny_model(model_type, seed=seed), tmp_path / str(seed), "qpack", hashed=True)
            assert ((tmp_path / str(seed) / "hashes.json").read_text() == (qpack / "hashes.json").read_text()) is same

    def test_mlx_form_holds_the_same_model(self, tmp_path, qpack):
        make_synthetic.make(tiny_model(qpack.stem), tmp_path / "mlx", "mlx", hashed=False)
        (shard,) = (tmp_path / "mlx").glob("*.safetensors")
        size = int.from_bytes(shard.read_bytes()[:8], "little")
        header = json.loads(shard.read_bytes()[8 : 8 + size])
        name = next(name for name in header if name.endswith("layers.2.mlp.switch_mlp.down_proj.weight"))
        begin, _ = header[name]["data_offsets"]
        words = np.frombuffer(shard.read_bytes(), np.uint32, 512 * 8, 8 + size + begin + 5 * 512 * 8 * 4)
        container = numpy_forward.Container(qpack)
        codes = numpy_forward.NIBBLES[words.view(np.uint8)].reshape(512, -1, 64)
        weights = container.expert(2, 5)["down_proj"].reshape(512, -1, 64)
        ratio = weights / (codes - 8 + (codes == 8))  # one scale a group
        live = codes != 8
        spread = np.where(live, ratio, -np.inf).max(-1) - np.where(live, ratio, np.inf).min(-1)
        assert np.abs(spread).max() < 1e-3 * np.abs(weights).max()

    def test_activations_stay_sane_and_topics_steer_routing(self, qpack):
        container = numpy_forward.Container(qpack)
        script = json.loads((qpack / "tokens.json").read_text())[:400]
        shuffled = random.Random(0).sample(script, len(script))
        overlaps = []
        for tokens in (script, shuffled):
            forward = numpy_forward.Forward(container, tokens)
            routes = [forward.step().experts for _ in range(4)]
            overlaps.append(2 - overlap(numpy_forward.decode_trace(routes, TINY["num_experts"])))
            assert 0.9 < np.sqrt(np.mean(forward.x**2)) < 3
            logits = forward.logits()
            assert np.isfinite(logits).all() and 1 < logits.std() < 4
        assert overlaps[0] > overlaps[1] + 0.05

    def test_script_stays_on_its_topic(self):
        topics = Topics()
        ids = np.array(token_script(topics, 100_000, 6000, seed=1))
        passages = topics.passage_of(ids)
        stays = np.mean(passages[1:] == passages[:-1])
        assert abs(stays - (1 - 1 / topics.topic_tokens) * (1 - 1 / topics.passage_tokens)) < 0.02
        assert ids.min() >= 256 and ids.max() < 100_000

    def test_script_survives_the_tokenizer(self, qpack):
        tokenizers = pytest.importorskip("tokenizers")
        tokenizer = tokenizers.Tokenizer.from_file(str(qpack / "tokenizer.json"))
        script = json.loads((qpack / "tokens.json").read_text())[:200]
        assert tokenizer.encode(tokenizer.decode(script)).ids == script
        assert tokenizer.decode(tokenizer.encode("Grüße, 世界!").ids) == "Grüße, 世界!"

    def test_refuses_to_overwrite_and_deletes_only_its_own(self, tmp_path):
        mine, other = tmp_path / "mine", tmp_path / "other"
        make_synthetic.make(tiny_model(), mine, "qpack", hashed=False)
        other.mkdir()
        with pytest.raises(SystemExit, match="exists"):
            make_synthetic.make(tiny_model(), other, "qpack", hashed=False)
        with pytest.raises(SystemExit, match="was not made by this script"):
            make_synthetic.delete(other)
        make_synthetic.delete(mine)
        assert other.exists() and not mine.exists()

    def test_bf16_rounds_to_nearest_even(self):
        values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-7, 0.1], np.float32)
        assert from_bf16(to_bf16(values)).tolist() == [1.0, 1.0, 1 + 2**-6, -1 - 2**-7, 0.10009765625]


@pytest.mark.parametrize("name", ["q35-4bit-tied-f16", "next-4bit-g32"])
def test_numpy_forward_agrees_with_the_reference(name):
    """The 4-bit fixtures, with their stacked experts read as a container's would be."""
    folder = REFERENCE / "checkpoints" / name
    expected = load_file(REFERENCE / "forward" / f"{name}.safetensors")
    forward = numpy_forward.Forward(CheckpointContainer(folder), expected["short.tokens"].tolist())
    for layer in range(forward.config["num_hidden_layers"]):
        route = forward.step()
        assert np.array_equal(np.sort(route.experts), np.sort(expected[f"short.router.{layer}.indices"]))
        assert np.abs(forward.x - expected[f"short.layer.{layer}"]).max() < 1e-3


class CheckpointContainer(numpy_forward.Container):
    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        self.family = config["model_type"]
        self.config = config | config.get("text_config", {})
        self._quantization = config["quantization"]
        self._prefix = "language_model." if self.family == "qwen3_5_moe" else ""
        self._tensors = {}
        for path in folder.glob("*.safetensors"):
            raw = path.read_bytes()
            size = int.from_bytes(raw[:8], "little")
            for key, entry in json.loads(raw[8 : 8 + size]).items():
                if key != "__metadata__":
                    begin, end = entry["data_offsets"]
                    data = np.frombuffer(raw[8 + size + begin : 8 + size + end], np.uint8)
                    self._tensors[key] = data.view(numpy_forward.DTYPES[entry["dtype"]]).reshape(entry["shape"])

    def __getitem__(self, name):
        return self._tensors[self._prefix + name]

    def expert(self, layer, expert):
        at = f"model.layers.{layer}.mlp.switch_mlp."
        names = ("gate_proj", "up_proj", "down_proj")
        parts = ("weight", "scales", "biases")
        return {n: numpy_forward.dequantize(*(self[f"{at}{n}.{p}"][expert] for p in parts), 4) for n in names}


class TestPolicies:
    def test_lru_drops_the_least_recent(self):
        trace = single_tokens([[0], [1], [0], [2], [0], [1]], 3)  # 2 replaces 1, then 1 misses
        assert hits(trace, 2, Lru(3)) == (2, 6)

    def test_lfu_keeps_the_frequent(self):
        trace = single_tokens([[0], [0], [0], [1], [2], [0], [2]], 3)  # LRU would have lost 0 at [2]
        assert hits(trace, 2, Lfu(3)) == (4, 7)

    def test_decay_forgets_what_was_frequent_long_ago(self):
        trace = single_tokens([[0]] * 30 + [[1], [2]] * 20, 3)
        short, long = (hits(trace, 2, LfuDecay(3, half_life, 1))[0] for half_life in (2, 1e6))
        assert (short, long) == (29 + 36, 29)

    def test_decay_with_an_endless_half_life_is_lfu(self):
        routing = Routing(2, 16, 3, 1.0, 0.5, 20, 0.3)
        trace = trace_of(routing, decode(Text(routing, 3), 300))
        lfu, decayed = (decode_hits(trace, 0.25, p) for p in (Lfu(32), LfuDecay(32, 1e9, 6)))
        assert abs(lfu - decayed) < 0.03

    def test_scores_do_not_overflow(self):
        policy = LfuDecay(4, 0.01, 1)
        trace = single_tokens([[i % 4] for i in range(2000)], 4)
        assert hits(trace, 2, policy)[0] == 0 and np.isfinite(policy.score).all()

    @pytest.mark.parametrize("seed", range(5))
    def test_belady_is_the_optimum(self, seed):
        """Against all ways to evict, on traces short enough to try them."""
        picks = random.Random(seed)
        requests = [[picks.randrange(5)] for _ in range(11)]
        best = 0
        states = {frozenset(): 0}
        for (item,) in requests:
            following = {}
            for held, score in states.items():
                if item in held:
                    options, score = [held], score + 1
                elif len(held) < 2:
                    options = [held | {item}]
                else:
                    options = [held - {out} | {item} for out in held]
                for option in options:
                    following[option] = max(score, following.get(option, 0))
            states = following
        best = max(states.values())
        assert hits(trace := single_tokens(requests, 5), 2, Belady(trace))[0] == best

    def test_nothing_beats_belady_and_what_is_in_use_stays(self):
        routing = Routing(3, 16, 4, 0.5, 1.0, 20, 0.3)
        trace = trace_of(routing, [*prefill(Text(routing, 1), 64, 32), *decode(Text(routing, 2), 200)])
        for share in (0.4, 0.6):
            best = decode_hits(trace, share, Belady(trace))
            others = Lru(48), Lfu(48), LfuDecay(48, 16, 12), LfuDecay(48, 16, 12, spare_latest=16)
            assert all(decode_hits(trace, share, policy) <= best for policy in others)
        full = replay(trace, [Pool(48, Lru(48))])
        assert np.mean(full[-100:]) == 1.0

    def test_sparing_the_latest_keeps_them(self):
        trace = single_tokens([[0, 1]] * 9 + [[2, 3], [4, 5], [4, 5]], 6)
        plain, spared = (hits(trace, 4, LfuDecay(6, 1e6, 2, spare_latest=n))[0] for n in (0, 6))
        assert (plain, spared) == (18, 18)
        trace = single_tokens([[0], [0], [1], [1], [2], [3], [2]], 4)
        assert hits(trace, 2, LfuDecay(4, 1e6, 1, spare_latest=4))[0] == 2


class TestTraces:
    def test_round_trip(self, tmp_path):
        routing = Routing(2, 8, 2, 1, 1, 10, 0.3)
        text = Text(routing, 1)
        trace = trace_of(routing, [*prefill(text, 20, 16), *decode(text, 3)])
        write_trace(tmp_path / "trace", trace)
        again = read_trace(tmp_path / "trace", 8)
        assert [chunk.tokens for chunk in again.chunks] == [16, 4, 1, 1, 1]
        for before, after in zip(trace.chunks, again.chunks, strict=True):
            for (layer, ids, counts), (layer2, ids2, counts2) in zip(before.requests, after.requests, strict=True):
                assert layer == layer2 and np.array_equal(ids, ids2) and np.array_equal(counts, counts2)
                assert counts.sum() == before.tokens * 2

    @pytest.mark.parametrize(
        "line",
        [
            "{",
            "[]",
            '{"tokens": 1}',
            '{"tokens": 1, "layers": {"0": [8]}}',
            '{"tokens": 1, "layers": {"0": [1]}, "counts": {"0": []}}',
        ],
    )
    def test_bad_line_is_named(self, tmp_path, line):
        (tmp_path / "trace").write_text('{"tokens": 1, "layers": {"0": [1]}}\n' + line + "\n")
        with pytest.raises(ValueError, match="line 2: not a routing trace"):
            read_trace(tmp_path / "trace", 8)

    def test_text_has_the_published_overlap(self):
        routing = Routing(4, 256, 8, 0.55, 1.1, 80, 0.3)
        trace = trace_of(routing, decode(Text(routing, 1), 400))
        assert [abs(overlap(trace, span) - union) < 0.15 for span, union in ((2, 1.65), (4, 2.7), (8, 4.2))] == [
            True
        ] * 3


class TestMemrun:
    @pytest.fixture(autouse=True)
    def cgroups(self):
        try:
            memrun.make_cgroup(0).remove()
        except OSError as error:
            pytest.skip(f"no memory cgroup can be made: {error}")

    @staticmethod
    def run(*arguments):
        command = [sys.executable, str(BENCHMARKS / "memrun.py"), "--json", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def test_reports_and_passes_the_status_on(self):
        done = self.run("--", sys.executable, "-c", "x = bytearray(64 << 20); raise SystemExit(7)")
        assert done.returncode == 7
        assert 64 < json.loads(done.stdout)["cgroup_peak_MiB"] < 200

    def test_limit_holds(self):
        done = self.run("--limit", "48M", "--", sys.executable, "-c", "x = bytearray(200 << 20)")
        assert done.returncode == 128 + 9
        assert json.loads(done.stdout)["cgroup_peak_MiB"] <= 48

    def test_says_what_is_wrong(self):
        assert "is not a size" in self.run("--limit", "many", "--", "true").stderr
        assert "no command" in self.run().stderr
        assert "No such file" in self.run("--", "/no/such/command").stderr


def test_sizes():
    assert [memrun.parse_size(text) for text in ("3G", "4400M", "512k", "77")] == [3 << 30, 4400 << 20, 512 << 10, 77]
