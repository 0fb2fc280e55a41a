"""Damaged, contradictory and hostile containers: one clear error each, and the engine survives what can be survived."""

import json
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference import CHECKPOINTS
from swiftlet import _core
from swiftlet.repack import repack

LOAD: dict[str, Any] = {"context": 64, "threads": 1}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "tiny.qpack"
    repack(CHECKPOINTS / "q35-4bit-mtp", path)
    return path


@pytest.fixture
def box(good: Path, tmp_path: Path) -> Path:
    """A copy of a good container, to be damaged."""
    return Path(shutil.copytree(good, tmp_path / "bad.qpack"))


def refusal(path: Path, kind: type[Exception] = _core.ContainerError, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        _core.Engine(str(path), **{**LOAD, **options})
    return str(caught.value)


def edit_json(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def edit_config(box: Path, key: str, value: Any) -> None:
    def change(config: dict[str, Any]) -> None:
        text = config.get("text_config", config)
        (text if key in text else config)[key] = value

    edit_json(box / "config.json", change)
    fix_manifest(box)


def fix_manifest(box: Path) -> None:
    """Sizes of the manifest as the files are now, so that the damage behind them is what is found."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["files"] = {name: (box / name).stat().st_size for name in manifest["files"]}

    edit_json(box / "manifest.json", change)


def edit_header(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrites the header of a safetensors file; the data stay."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


def name_of(box: Path, end: str) -> str:
    data = (box / "model.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    return next(name for name in header if name.endswith(end))


def test_good_container_loads(good: Path) -> None:
    assert _core.Engine(str(good), **LOAD).config["model_type"] == "qwen3_5_moe"


def test_not_a_container(tmp_path: Path) -> None:
    assert "no-such" in refusal(tmp_path / "no-such.qpack")
    assert "manifest.json" in refusal(tmp_path)
    assert "swiftlet repack" in refusal(CHECKPOINTS / "q35-2bit")
    file = tmp_path / "file"
    file.write_text("hello")
    assert str(file) in refusal(file)


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "packed_experts/layout.json", "model.safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_file(box: Path, name: str, share: float) -> None:
    path = box / name
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert name.split("/")[-1] in refusal(box)
    if name != "manifest.json":
        fix_manifest(box)
        assert name.split("/")[-1] in refusal(box)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "packed_experts/layer_00.bin"])
def test_missing_file(box: Path, name: str) -> None:
    (box / name).unlink()
    assert name in refusal(box)


@pytest.mark.parametrize(
    ("key", "value", "mentions"),
    [
        ("magic", "GGUF", "GGUF"),
        ("version", 2, "2"),
        ("version", "one", "version"),
        ("files", {"../../etc/passwd": 1}, ".."),
        ("files", {"/etc/passwd": 1}, "/etc/passwd"),
        ("files", [], "files"),
    ],
)
def test_bad_manifest(box: Path, key: str, value: Any, mentions: str) -> None:
    edit_json(box / "manifest.json", lambda manifest: manifest.update({key: value}))
    assert mentions in refusal(box)


@pytest.mark.parametrize(
    ("change", "mentions"),
    [
        (lambda d: d.update(expertCount=1 << 40), "expertCount"),
        (lambda d: d.update(expertCount=-1), "expertCount"),
        (lambda d: d.update(expertCount=7), "layer_00.bin"),
        (lambda d: d.update(layerCount=9), "layerCount"),
        (lambda d: d.update(expertStride=(1 << 63)), "expertStride"),
        (lambda d: d.update(expertStride=16385), "expertStride"),
        (lambda d: d.update(linearLayers=[True]), "linearLayers"),
        (lambda d: d["linearLayers"].reverse(), "linearLayers"),
        (lambda d: d["sections"][0].update(offset=1 << 62), "sections[0].offset"),
        (lambda d: d["sections"][0].update(shape=[1 << 62, 1 << 62]), "sections[0].shape"),
        (lambda d: d["sections"][0].update(dtype="F99"), "F99"),
        (lambda d: d["sections"][3].update(offset=0), "up_proj.weight"),
        (lambda d: d["sections"].pop(0), "gate_proj"),
        (lambda d: d.pop("sections"), "sections"),
    ],
)
def test_bad_layout(box: Path, change: Callable[[dict[str, Any]], None], mentions: str) -> None:
    edit_json(box / "packed_experts/layout.json", change)
    fix_manifest(box)
    assert mentions in refusal(box)


@pytest.mark.parametrize(
    ("key", "value", "mentions"),
    [
        ("model_type", "llama", "llama"),
        ("num_hidden_layers", 3, "3 layers"),
        ("num_experts", 4, "num_experts"),
        ("num_experts_per_tok", 99, "num_experts_per_tok"),
        ("hidden_size", 128, "128"),
        ("vocab_size", 1024, "embed_tokens"),
        ("num_attention_heads", 4, "self_attn"),
        ("linear_num_value_heads", 4, "linear_attn"),
        ("moe_intermediate_size", 32, "gate_proj"),
        ("layer_types", ["full_attention"] * 4, "linearLayers"),
        ("quantization", {"bits": 8, "group_size": 64}, "quantization"),
        ("rms_norm_eps", "tiny", "rms_norm_eps"),
    ],
)
def test_contradicting_config(box: Path, key: str, value: Any, mentions: str) -> None:
    edit_config(box, key, value)
    assert mentions in refusal(box)


def test_missing_tensor(box: Path) -> None:
    name = name_of(box, "layers.1.linear_attn.A_log")
    edit_header(box / "model.safetensors", lambda header: header.pop(name))
    fix_manifest(box)
    assert "layers.1.linear_attn.A_log" in refusal(box)


@pytest.mark.parametrize(
    ("change", "mentions"),
    [
        ({"data_offsets": [0, 1 << 60]}, "beyond"),
        ({"data_offsets": [64, 0]}, "offset"),
        ({"data_offsets": [-8, 8]}, "offset"),
        ({"shape": [1 << 62, 1 << 62]}, "shape"),
        ({"shape": [3]}, "shape"),
        ({"dtype": "Q4_K"}, "Q4_K"),
    ],
)
def test_hostile_header(box: Path, change: dict[str, Any], mentions: str) -> None:
    name = name_of(box, "model.norm.weight")
    edit_header(box / "model.safetensors", lambda header: header[name].update(change))
    fix_manifest(box)
    message = refusal(box)
    assert "model.safetensors" in message and name in message


def test_flipped_bits_never_crash(box: Path, good: Path) -> None:
    """Headers with any one bit flipped either load or are refused; `swiftlet verify` is for the rest."""
    random = np.random.default_rng(1)
    for name in ("manifest.json", "config.json", "packed_experts/layout.json", "model.safetensors"):
        data = bytearray((good / name).read_bytes())
        header = len(data) if name.endswith("json") else 8 + struct.unpack("<Q", data[:8])[0]
        for position in random.integers(0, header * 8, 60):
            flipped = bytearray(data)
            flipped[position // 8] ^= 1 << (position % 8)
            (box / name).write_bytes(flipped)
            try:
                engine = _core.Engine(str(box), **LOAD)
                engine.forward(engine.session(), [1, 2, 3])
            except _core.SwiftletError as error:
                assert str(error)
        (box / name).write_bytes(data)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_nan_in_a_norm_is_found_at_load(box: Path) -> None:
    path = box / "model.safetensors"
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    begin = json.loads(data[8 : 8 + length])[name_of(box, "model.norm.weight")]["data_offsets"][0]
    overwrite(path, 8 + length + begin, b"\xff\x7f")
    assert "model.norm.weight" in refusal(box)


def test_nan_in_experts_is_found_in_the_logits(box: Path) -> None:
    layout = json.loads((box / "packed_experts/layout.json").read_text())
    for section in layout["sections"]:
        if section["name"] == "down_proj.scales":
            for expert in range(layout["expertCount"]):
                begin = expert * layout["expertStride"] + section["offset"]
                overwrite(box / "packed_experts/layer_02.bin", begin, b"\xff\x7f" * 8)
    engine = _core.Engine(str(box), **LOAD)
    with pytest.raises(_core.NumericError, match="swiftlet verify"):
        engine.forward(engine.session(), [1, 2, 3])


def test_truncated_while_running(box: Path) -> None:
    engine = _core.Engine(str(box), pool_slots=2, io="buffered", **LOAD)
    session = engine.session()
    engine.forward(session, [1, 2, 3])
    path = box / "packed_experts/layer_01.bin"
    whole, times = path.read_bytes(), path.stat()
    path.write_bytes(b"")
    with pytest.raises(_core.IoError, match=r"layer 1.*expert \d+.*layer_01\.bin|layer_01\.bin"):
        for _ in range(20):
            engine.forward(session, [4, 5, 6])
    assert not session.valid
    path.write_bytes(whole)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the file that was there, put back
    session.reset()
    again = engine.forward(session, [1, 2, 3])["logits"]
    np.testing.assert_array_equal(again, _core.Engine(str(box), **LOAD).forward(engine.session(), [1, 2, 3])["logits"])


def test_overwritten_while_running(box: Path) -> None:
    engine = _core.Engine(str(box), pool_slots=2, **LOAD)
    session = engine.session()
    engine.forward(session, [1, 2, 3])
    path = box / "packed_experts/layer_01.bin"
    time.sleep(0.02)  # past the grain of the file system's clock
    overwrite(path, 0, path.read_bytes()[::-1])
    with pytest.raises(_core.IoError, match=r"layer 1.*layer_01\.bin.*written to"):
        for _ in range(20):
            engine.forward(session, [4, 5, 6])


def test_memory_too_small(good: Path) -> None:
    smallest = _core.plan(str(good), context=64)["smallest"]
    message = refusal(good, _core.MemoryLimitError, memory=smallest // 2)
    assert "smallest" in message
    assert "slots" in refusal(good, _core.MemoryLimitError, pool_slots=1)


def test_prompts_that_cannot_be(good: Path) -> None:
    engine = _core.Engine(str(good), **LOAD)
    session, params = engine.session(), _core.SamplingParams()
    for ids, mentions in (([], "empty"), ([1] * 64, "64"), ([512], "512"), ([-1], "-1")):
        with pytest.raises(_core.InputError, match=mentions):
            engine.generate(session, ids, params)
    with pytest.raises(ValueError, match="context"):
        engine.forward(session, [1] * 65)
    for options in ({"kv": "q4"}, {"io": "mmap"}, {"context": -1}, {"chunk": -3}, {"context": 1 << 40}):
        assert next(iter(options)) in refusal(good, _core.InputError, **options)
    assert "reference" in refusal(good, _core.InputError, isa="mmx")
