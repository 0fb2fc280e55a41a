"""The benchmark tools: what they measure must be right before what they say can be believed."""

import functools
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from safetensors.numpy import load_file

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
REFERENCE = Path(__file__).parents[1] / "data" / "reference"
sys.path.insert(0, str(BENCHMARKS))

import make_synthetic  # noqa: E402
import memrun  # noqa: E402
import numpy_forward  # noqa: E402
import plot  # noqa: E402
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


@functools.cache
def bench_program():
    """swiftlet-bench: what SWIFTLET_BENCH names, or the newest below build/; None if it was not built."""
    if named := os.environ.get("SWIFTLET_BENCH"):
        return Path(named)
    built = (BENCHMARKS.parent / "build").glob("**/swiftlet-bench")
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


class TestSwiftletBench:
    """That the program measures what it says; never how long that took."""

    DEMO = BENCHMARKS.parent / "python" / "swiftlet" / "demo.qpack"

    @pytest.fixture(autouse=True)
    def program(self):
        self.path = bench_program()
        if self.path is None:
            pytest.skip("swiftlet-bench was not built: configure with -DSWIFTLET_BENCHMARKS=ON, or set SWIFTLET_BENCH")

    def run(self, *arguments):
        return subprocess.run(
            [self.path, *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False
        )

    def measure(self, tmp_path, *arguments):
        """What a command wrote, one dictionary a measurement."""
        done = self.run(*arguments, "--json", tmp_path / "out.jsonl")
        assert done.returncode == 0, done.stderr
        assert done.stdout
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        for line in lines:
            assert line["command"] == arguments[0]
            assert {"cpu", "cores", "memory_bytes", "kernel"} == line["machine"].keys()
            assert line["version"] and line["date"].startswith("20")
        return lines

    @staticmethod
    def check_figure(figure, repeat):
        assert len(figure["samples"]) == repeat
        assert figure["min"] <= figure["median"] <= figure["max"]
        assert figure["min"] == min(figure["samples"]) and figure["max"] == max(figure["samples"])

    def test_decode(self, tmp_path):
        command = ("decode", self.DEMO, "-p", 16, "-n", 12, "-r", 3, "-t", 2, "--isa", "reference", "--kv", "int8")
        (line,) = self.measure(tmp_path, *command, "--memory", "1GB", "--warm", "on")
        assert (line["threads"], line["isa"], line["kv"], line["text"]) == (2, "reference", "int8", "random")
        assert line["memory"]["under_the_ceiling"] and line["memory"]["ceiling"] == 10**9
        for name in ("tokens_per_second", "gb_per_second", "plain_read_gb_per_second", "of_plain_read"):
            self.check_figure(line[name], 3)
        assert line["hit_rate"]["samples"] == [1, 1, 1]
        assert line["disk_bytes_per_token"]["max"] == line["wait_ms_per_token"]["max"] == 0
        sections = json.loads((self.DEMO / "packed_experts" / "layout.json").read_text())["sections"]
        expert = sum(section["size"] for section in sections)
        assert line["token_bytes"]["experts"] == 8 * 4 * expert  # 8 layers, 4 experts a token

    def test_decode_that_streams(self, tmp_path):
        (line,) = self.measure(tmp_path, "decode", self.DEMO, "-p", 16, "-n", 16, "-r", 2, "-t", 1, "--slots", 64)
        assert (line["memory"]["slots"], line["memory"]["experts"]) == (64, 256)
        expert = line["memory"]["pool"] // 64
        for hit_rate, read in zip(*(line[k]["samples"] for k in ("hit_rate", "disk_bytes_per_token")), strict=True):
            assert 0 < hit_rate < 1
            assert read == pytest.approx((1 - hit_rate) * 8 * 4 * expert)
        assert line["disk_gb_per_second"]["min"] > 0

    def test_prefill(self, tmp_path):
        lines = self.measure(tmp_path, "prefill", self.DEMO, "-p", "16,40", "-r", 2, "--chunk", 32, "--memory", "1GB")
        assert [line["prompt"] for line in lines] == [16, 40]
        for line in lines:
            assert line["memory"]["chunk"] == 32
            ratios = np.divide(line["gflop_per_second"]["samples"], line["tokens_per_second"]["samples"])
            assert ratios == pytest.approx(self.multiplications(), rel=1e-6)

    def multiplications(self):
        """GFLOP of one token: each quantized matrix but head and embedding, whose groups of 64 the scales count."""
        raw = (self.DEMO / "model.safetensors").read_bytes()
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        scales = {name: value["shape"] for name, value in header.items() if name.endswith(".scales")}
        weights = 64 * sum(a * b for name, (a, b) in scales.items() if ".layers." in name)
        sections = json.loads((self.DEMO / "packed_experts" / "layout.json").read_text())["sections"]
        expert = 64 * sum(s["shape"][0] * s["shape"][1] for s in sections if s["name"].endswith(".scales"))
        return 2e-9 * (weights + 8 * 4 * expert)

    def test_context(self, tmp_path):
        lines = self.measure(tmp_path, "context", self.DEMO, "-p", 20, "-n", 2, "-r", 2, "--positions", "50,90")
        assert [(line["kv"], line["position"]) for line in lines] == [
            ("f16", 50),
            ("f16", 90),
            ("int8", 50),
            ("int8", 90),
        ]
        assert all(line["memory"]["under_the_ceiling"] for line in lines)
        assert lines[1]["kv_bytes_per_token"] * 50 == lines[0]["kv_bytes_per_token"] * 90
        assert lines[2]["memory"]["state"] < lines[0]["memory"]["state"]

    def test_io(self, tmp_path):
        command = ("io", self.DEMO, "--io-threads", "1,3", "-r", 2, "--seconds", 0.3, "--cold")
        lines = self.measure(tmp_path, *command)
        assert [line["io_threads"] for line in lines] == [1, 3, 1, 3]
        assert not lines[-1]["direct_io"]
        for line in lines:
            ratios = np.divide(line["gb_per_second"]["samples"], line["reads_per_second"]["samples"])
            assert ratios == pytest.approx(line["read_bytes"] / 1e9)

    def test_kernels(self, tmp_path):
        command = ("kernels", "--rows", 64, "--cols", 256, "-r", 2, "--codec", "affine4-g64,f32", "--isa", "reference")
        lines = self.measure(tmp_path, *command)
        assert {line["codec"] for line in lines} == {"affine4-g64", "f32"}
        assert {line["bytes"] for line in lines} == {64 * (128 + 2 * 4 * 2), 64 * 256 * 4}
        for line in lines:
            self.check_figure(line["of_plain_read"], 2)
            multiplications = np.divide(line["gflop_per_second"]["samples"], line["gb_per_second"]["samples"])
            assert multiplications == pytest.approx(2 * 64 * 256 * line["tokens"] / line["bytes"])

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["decode"], "no container was given"),
            (["decode", "/no/such.qpack"], "/no/such.qpack does not exist"),
            (["decode", "x", "--threads", "many"], "--threads is 'many', but must be a whole number"),
            (["decode", "x", "--memory", "3X"], "--memory is '3X'; give a number of bytes"),
            (["decode", "x", "--decode"], "--decode needs a value"),
            (["decode", "x", "--isa", "sse"], "--isa is 'sse', but must be one of"),
            (["prefill", "x", "--prefetch", "on"], "'--prefetch' is not an argument of this command"),
            (["io", "x", "--io", "direct,slow"], "--io is 'direct,slow', but must be of: direct, buffered"),
            (["kernels", "--cols", "200"], "--cols is 200, but must be a multiple of 128"),
            (["fly"], "unknown command 'fly'"),
        ],
    )
    def test_says_what_is_wrong(self, arguments, message):
        done = self.run(*arguments)
        assert done.returncode == 1
        assert message in done.stderr and done.stderr.count("\n") == 1

    def test_help(self):
        assert "--prefetch" in self.run("--help").stdout
        assert self.run().returncode == 2


class TestPlot:
    DECODE: ClassVar = {
        "command": "decode",
        "memory": {"ceiling": 3 << 30, "slots": 9, "experts": 9},
        "tokens_per_second": {"samples": [1.5, 2.5]},
        "gb_per_second": {"samples": [3.0]},
        "plain_read_gb_per_second": {"samples": [7.0]},
    }
    LLAMA: ClassVar = [
        {"n_prompt": 0, "n_gen": 64, "avg_ts": 3.0, "samples_ts": [2.0, 3.0, 4.5]},
        {"n_prompt": 512, "n_gen": 0, "avg_ts": 9.0, "samples_ts": [9.0]},
    ]

    def test_reads_both_programs(self, tmp_path, monkeypatch):
        (tmp_path / "ours.jsonl").write_text(json.dumps(self.DECODE) + "\n")
        (tmp_path / "theirs.jsonl").write_text("\n".join(map(json.dumps, self.LLAMA)))
        (tmp_path / "small.jsonl").write_text(
            json.dumps(self.DECODE | {"memory": {"ceiling": 3 << 30, "slots": 4, "experts": 9}})
        )
        sources = ["ours=ours.jsonl", "ours=ours.jsonl", "small.jsonl", "other=theirs.jsonl"]
        monkeypatch.chdir(tmp_path)
        assert plot.read_samples(sources) == {
            plot.Bar("decode, tokens/s", "", "ours"): [1.5, 2.5, 1.5, 2.5],
            plot.Bar("decode, GB/s", "decode", "ours"): [3.0, 3.0],
            plot.Bar("decode, GB/s", "plain read", "ours"): [7.0, 7.0],
            plot.Bar("decode under a ceiling, tokens/s", "3.0 GiB", "small"): [1.5, 2.5],
            plot.Bar("decode, tokens/s", "", "other"): [2.0, 3.0, 4.5],
            plot.Bar("prefill, tokens/s", "512", "other"): [9.0],
        }

    @pytest.mark.parametrize(
        "text", ["{", "[]", "3", '{"command": "fly"}', '{"avg_ts": 1, "samples_ts": []}', '{"command": "prefill"}']
    )
    def test_bad_line_is_named(self, tmp_path, text):
        (tmp_path / "bad").write_text(json.dumps(self.DECODE) + "\n" + text + "\n")
        with pytest.raises(SystemExit, match="line 2: not a measurement"):
            plot.read_samples([str(tmp_path / "bad")])

    def test_draws_the_same_file_twice(self, tmp_path):
        pytest.importorskip("matplotlib")
        (tmp_path / "a").write_text(json.dumps(self.DECODE))
        for name in ("one.svg", "two.svg"):
            plot.draw(plot.read_samples([str(tmp_path / "a")]), tmp_path / name)
        svg = (tmp_path / "one.svg").read_text()
        assert "decode, tokens/s" in svg and svg == (tmp_path / "two.svg").read_text()

    def test_says_that_it_needs_matplotlib(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        (tmp_path / "a").write_text(json.dumps(self.DECODE))
        with pytest.raises(SystemExit, match="pip install matplotlib"):
            plot.draw(plot.read_samples([str(tmp_path / "a")]), tmp_path / "a.svg")
