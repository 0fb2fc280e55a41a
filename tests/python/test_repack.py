import errno
import json
import math
import os
import shutil
import tracemalloc
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

import swiftlet
from checkpoint_files import (
    change_json,
    change_tensors,
    copy_checkpoint,
    dequantize,
    read_checkpoint,
    read_tensors,
    values,
    write_raw,
    write_tensors,
)
from reference import CHECKPOINTS, NAMES
from swiftlet.repack import repack, verify
from swiftlet.repack.quantize import BITS

UNQUANTIZED = [name for name in NAMES if "hf" in name or "mlx-bf16" in name]
QUANTIZED = [name for name in NAMES if name not in UNQUANTIZED]
COPIED = ["generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]


class Experts:
    """The experts of a container, read by the rules of the format."""

    def __init__(self, container: Path):
        self.folder = container / "packed_experts"
        self.layout = json.loads((self.folder / "layout.json").read_text())

    def entry(self, layer: int) -> dict:
        return self.layout.get("layers", {}).get(str(layer), self.layout)

    def read(self, layer: int, expert: int) -> dict:
        entry = self.entry(layer)
        with (self.folder / f"layer_{layer:02d}.bin").open("rb") as file:
            file.seek(expert * entry["expertStride"])
            blob = file.read(entry["expertStride"])
        return {
            s["name"]: (s["dtype"], s["shape"], blob[s["offset"] : s["offset"] + s["size"]]) for s in entry["sections"]
        }


def part(stored, expert, rows=slice(None)):
    """One expert's rows of a stacked tensor."""
    dtype, shape, data = stored
    width = len(data) // math.prod(shape)
    array = np.frombuffer(data, f"V{width}").reshape(shape)[expert, rows]
    return dtype, list(array.shape), array.tobytes()


def source_of_expert(tensors: dict, layer: int, expert: int) -> dict:
    """What an expert's blob must hold, found in the checkpoint's tensors."""
    found = {}
    for name, stored in tensors.items():
        if "mtp." in name or f"layers.{layer}.mlp." not in name:
            continue
        rest = name.split(f"layers.{layer}.mlp.")[1]
        if rest.startswith("switch_mlp."):
            found[rest.removeprefix("switch_mlp.")] = part(stored, expert)
        elif rest == "experts.gate_up_proj":
            half = stored[1][1] // 2
            found["gate_proj.weight"] = part(stored, expert, slice(None, half))
            found["up_proj.weight"] = part(stored, expert, slice(half, None))
        elif rest == "experts.down_proj":
            found["down_proj.weight"] = part(stored, expert)
        elif rest.startswith(f"experts.{expert}."):
            found[rest.removeprefix(f"experts.{expert}.")] = stored
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def is_resident(name: str) -> bool:
    return not any(word in name for word in ("mtp.", "visual.", "vision_tower.", "switch_mlp.", ".experts."))


@pytest.mark.parametrize("name", NAMES)
def test_keeps_every_byte(name, tmp_path):
    container = repack(CHECKPOINTS / name, tmp_path / "m.qpack")
    tensors = read_checkpoint(CHECKPOINTS / name)
    assert read_tensors(container / "model.safetensors") == {n: t for n, t in tensors.items() if is_resident(n)}
    experts = Experts(container)
    for layer in range(experts.layout["layerCount"]):
        if not experts.entry(layer)["expertStride"]:
            assert not source_of_expert(tensors, layer, 0)
            assert not (container / "packed_experts" / f"layer_{layer:02d}.bin").exists()
            continue
        for expert in range(experts.layout["expertCount"]):
            assert experts.read(layer, expert) == source_of_expert(tensors, layer, expert)
    for file in ["config.json", *COPIED]:
        assert (container / file).read_bytes() == (CHECKPOINTS / name / file).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_describes_what_it_wrote(name, tmp_path):
    container = repack(CHECKPOINTS / name, tmp_path / "m.qpack")
    config = json.loads((CHECKPOINTS / name / "config.json").read_text())
    text = config.get("text_config", config)
    manifest = json.loads((container / "manifest.json").read_text())
    block = config.get("quantization", {"bits": 32 if "f32" in name else 16, "group_size": 0, "mode": "plain"})
    assert (manifest["magic"], manifest["version"]) == ("QPACK", 1)
    assert (manifest["modelName"], manifest["sourceCheckpoint"]) == (config["model_type"], name)
    assert (manifest["quantBits"], manifest["quantGroupSize"]) == (block["bits"], block["group_size"])
    written = {str(path.relative_to(container)): path.stat().st_size for path in container.rglob("*") if path.is_file()}
    del written["manifest.json"]
    assert manifest["files"] == written

    layout = Experts(container).layout
    assert (layout["expertCount"], layout["layerCount"]) == (text["num_experts"], text["num_hidden_layers"])
    interval = text["full_attention_interval"]
    assert layout["linearLayers"] == [(i + 1) % interval != 0 for i in range(layout["layerCount"])]
    for entry in [layout, *layout.get("layers", {}).values()]:
        end = 0
        for section in entry["sections"]:
            assert section["offset"] % 16 == 0 and end <= section["offset"] < end + 16
            end = section["offset"] + section["size"]
        assert entry["expertStride"] % 16384 == 0 and end <= entry["expertStride"] < end + 16384
    weight = layout["sections"][0]
    assert (weight["name"], weight["bits"], weight["groupSize"]) == (
        "gate_proj.weight",
        block["bits"],
        block["group_size"],
    )
    assert weight["mode"] == block["mode"]


def test_layers_of_another_quantization_have_their_own_layout(tmp_path):
    layout = Experts(repack(CHECKPOINTS / "q35-overrides", tmp_path / "m.qpack")).layout
    assert list(layout["layers"]) == ["1"]
    down = {s["name"]: (s["bits"], s["groupSize"]) for s in layout["layers"]["1"]["sections"]}["down_proj.weight"]
    assert down == (6, 32)


def test_dense_layers_have_no_experts(tmp_path):
    container = repack(CHECKPOINTS / "next-hf-f32", tmp_path / "m.qpack")
    assert Experts(container).layout["layers"] == {"2": {"expertStride": 0, "sections": []}}


@pytest.mark.parametrize("name", UNQUANTIZED)
@pytest.mark.parametrize("bits", BITS)
def test_quantizes_matrices_and_leaves_the_rest(name, bits, tmp_path):
    container = repack(CHECKPOINTS / name, tmp_path / "m.qpack", bits=bits, group_size=32)
    before, after = read_checkpoint(CHECKPOINTS / name), read_tensors(container / "model.safetensors")
    left = set(after)
    for tensor, (dtype, shape, data) in before.items():
        if not is_resident(tensor):
            continue
        module = tensor.removesuffix(".weight")
        gate = module.endswith(("mlp.gate", "shared_expert_gate"))
        if len(shape) != 2 or shape[1] % 32 or (gate and shape[1] % 64):
            assert after[tensor] == (dtype, shape, data)
            left.remove(tensor)
            continue
        pieces = [after[f"{module}.{field}"] for field in ("weight", "scales", "biases")]
        left -= {f"{module}.{field}" for field in ("weight", "scales", "biases")}
        own_bits, group = (8, 64) if gate else (bits, 32)
        assert pieces[0][:2] == ("U32", [shape[0], shape[1] * own_bits // 32])
        assert pieces[1][:2] == pieces[2][:2] == (dtype, [shape[0], shape[1] // group])
    assert not left


@pytest.mark.parametrize("name", UNQUANTIZED)
def test_quantized_weights_are_near_the_originals(name, tmp_path):
    container = repack(CHECKPOINTS / name, tmp_path / "m.qpack", bits=8)
    tensors = read_checkpoint(CHECKPOINTS / name)
    experts = Experts(container)
    made, original = experts.read(1, 3), source_of_expert(tensors, 1, 3)
    seen = 0
    for matrix in ("gate_proj", "up_proj", "down_proj"):
        if f"{matrix}.scales" not in made:  # columns that do not divide into groups
            assert made[f"{matrix}.weight"] == original[f"{matrix}.weight"]
            continue
        wanted = values(original[f"{matrix}.weight"])
        got = dequantize(*(made[f"{matrix}.{field}"] for field in ("weight", "scales", "biases")))
        assert np.abs(got - wanted).max() < 0.01 * np.abs(wanted).max()
        seen += 1
    assert seen


def test_writes_the_quantization_block(tmp_path):
    name = "q35-hf-bf16"
    container = repack(CHECKPOINTS / name, tmp_path / "m.qpack", bits=4)
    config = json.loads((container / "config.json").read_text())
    block = config.pop("quantization")
    assert config.pop("quantization_config") == block
    assert config == json.loads((CHECKPOINTS / name / "config.json").read_text())
    assert (block.pop("bits"), block.pop("group_size"), block.pop("mode")) == (4, 64, "affine")
    gates = [f"model.language_model.layers.{i}.mlp.{g}" for i in range(4) for g in ("gate", "shared_expert_gate")]
    assert block == {gate: {"bits": 8, "group_size": 64} for gate in gates}


@pytest.mark.parametrize("name", [*QUANTIZED[:2], "next-mxfp4"])
def test_refuses_to_quantize_twice(name, tmp_path):
    with pytest.raises(swiftlet.InputError, match="quantized already"):
        repack(CHECKPOINTS / name, tmp_path / "m.qpack", bits=4)


@pytest.mark.parametrize(("bits", "group"), [(1, 64), (7, 64), (0, 64), (4, 48), (4, 0)])
def test_refuses_other_bits_and_groups(bits, group, tmp_path):
    with pytest.raises(swiftlet.InputError, match="choose from"):
        repack(CHECKPOINTS / "next-hf-f32", tmp_path / "m.qpack", bits=bits, group_size=group)


def test_names_the_tensor_that_is_not_finite(tmp_path):
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    name = "model.layers.1.mlp.experts.2.up_proj.weight"

    def spoil(tensors):
        dtype, shape, data = tensors[name]
        tensors[name] = (dtype, shape, data[:400] + np.float32(np.nan).tobytes() + data[404:])

    change_tensors(folder, spoil)
    with pytest.raises(swiftlet.ContainerError, match=f"{name}.*NaN"):
        repack(folder, tmp_path / "m.qpack", bits=4)
    assert names_in(tmp_path) == ["source"]
    repack(folder, tmp_path / "m.qpack")  # as it is, it is none of our business


def drop(name):
    return lambda tensors: tensors.pop(name)


def reshape(name, shape):
    def change(tensors):
        tensors[name] = (tensors[name][0], shape, tensors[name][2])

    return change


def rename(old, new):
    def change(tensors):
        tensors[new] = tensors.pop(old)

    return change


def add(name, stored):
    return lambda tensors: tensors.update({name: stored})


PREFIX = "language_model.model.layers"
TENSOR_CHANGES = {
    "missing norm": (drop("language_model.model.norm.weight"), "norm.weight"),
    "missing router": (drop(f"{PREFIX}.2.mlp.gate.weight"), "layers.2.mlp.gate.weight"),
    "missing scales": (drop(f"{PREFIX}.3.self_attn.k_proj.scales"), "k_proj.*without scales"),
    "missing biases": (drop(f"{PREFIX}.3.self_attn.k_proj.biases"), "k_proj.*biases"),
    "missing experts": (drop(f"{PREFIX}.1.mlp.switch_mlp.up_proj.weight"), "up_proj.*layer 1.*missing"),
    "missing expert scales": (drop(f"{PREFIX}.1.mlp.switch_mlp.up_proj.scales"), "up_proj.*layer 1"),
    "wrong rows": (reshape(f"{PREFIX}.0.mlp.gate.weight", [3, 32]), "mlp.gate.weight.*should be"),
    "wrong norm": (reshape("language_model.model.norm.weight", [2, 32]), "norm.weight"),
    "another number of experts": (reshape(f"{PREFIX}.1.mlp.switch_mlp.up_proj.weight", [3, 64, 16]), "6 experts"),
    "wrong expert shape": (reshape(f"{PREFIX}.1.mlp.switch_mlp.up_proj.weight", [6, 32, 16]), "up_proj.*layer 1"),
    "flat": (reshape(f"{PREFIX}.1.mlp.switch_mlp.up_proj.weight", [3072]), "up_proj"),
    "scalar": (add(f"{PREFIX}.0.mlp.gate.weight", ("U32", [], bytes(4))), "mlp.gate.weight"),
    "layer beyond the last": (
        rename(f"{PREFIX}.1.mlp.switch_mlp.up_proj.weight", f"{PREFIX}.9.mlp.switch_mlp.up_proj.weight"),
        "up_proj.*layer 1.*missing",
    ),
    "surplus layer": (
        add(f"{PREFIX}.9.mlp.switch_mlp.up_proj.weight", ("U32", [6, 64, 8], bytes(12288))),
        "layer 9",
    ),
    "unknown expert tensor": (
        add(f"{PREFIX}.0.mlp.experts.0.gate_proj.weight_scale_inv", ("F32", [1], bytes(4))),
        "weight_scale_inv",
    ),
    "the same tensor under two names": (
        add("model.language_model.norm.weight", ("BF16", [64], bytes(128))),
        "norm.weight although",
    ),
    "fp8 weights": (add(f"{PREFIX}.3.self_attn.q_norm.weight", ("F8_E4M3", [32], bytes(32))), "q_norm.*F8_E4M3"),
}


@pytest.mark.parametrize("case", TENSOR_CHANGES)
def test_names_the_tensor_that_is_wrong(case, tmp_path):
    change, message = TENSOR_CHANGES[case]
    folder = copy_checkpoint("q35-4bit-mtp", tmp_path / "source")
    change_tensors(folder, change)
    with pytest.raises(swiftlet.ContainerError, match=message):
        repack(folder, tmp_path / "m.qpack")
    assert names_in(tmp_path) == ["source"]


SINGLE_CHANGES = {
    "missing expert": (drop("model.layers.3.mlp.experts.4.down_proj.weight"), "expert 4"),
    "surplus expert": (
        add("model.layers.3.mlp.experts.5.down_proj.weight", ("F32", [64, 32], bytes(8192))),
        "experts.5.down_proj",
    ),
    "experts that differ": (
        add("model.layers.3.mlp.experts.1.down_proj.weight", ("BF16", [64, 32], bytes(4096))),
        "experts.1.down_proj.*another dtype",
    ),
    "experts in a dense layer": (
        add("model.layers.2.mlp.experts.0.down_proj.weight", ("F32", [64, 32], bytes(8192))),
        "no experts in layer 2",
    ),
}


@pytest.mark.parametrize("case", SINGLE_CHANGES)
def test_names_the_expert_that_is_wrong(case, tmp_path):
    change, message = SINGLE_CHANGES[case]
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    change_tensors(folder, change)
    with pytest.raises(swiftlet.ContainerError, match=message):
        repack(folder, tmp_path / "m.qpack")


CONFIG_CHANGES = {
    "unknown model_type": ({"model_type": "llama"}, "llama.*qwen3_next"),
    "no model_type": ({"model_type": None}, "model_type None"),
    "no layers": ({"num_hidden_layers": 0}, "num_hidden_layers 0"),
    "a layer too many": ({"num_hidden_layers": 5}, "layers.4"),
    "layers without end": ({"num_hidden_layers": 10**7}, "num_hidden_layers"),
    "a number as text": ({"num_experts": "5"}, "num_experts '5'"),
    "an expert too many": ({"num_experts": 6}, "mlp.gate.weight"),
    "true as a number": ({"num_experts": True}, "num_experts True"),
    "negative": ({"hidden_size": -64}, "hidden_size -64"),
    "huge": ({"hidden_size": 10**40}, "hidden_size"),
    "another hidden_size": ({"hidden_size": 32}, "embed_tokens"),
    "another intermediate size": ({"moe_intermediate_size": 16}, "gate_proj"),
    "a dense layer that is not there": ({"mlp_only_layers": [7]}, "mlp_only_layers"),
    "only dense layers": ({"mlp_only_layers": [0, 1, 2, 3]}, "no layer with routed experts"),
    "layer_types too short": ({"layer_types": ["linear_attention"]}, "layer_types"),
    "text_config is no object": ({"text_config": 3}, "text_config"),
    "untied": ({"tie_word_embeddings": False}, "lm_head"),
    "a flag as text": ({"tie_word_embeddings": "no"}, "tie_word_embeddings"),
}


@pytest.mark.parametrize("case", CONFIG_CHANGES)
def test_names_the_key_that_contradicts(case, tmp_path):
    change, message = CONFIG_CHANGES[case]
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    change_json(folder / "config.json", lambda config: config.update(change))
    with pytest.raises(swiftlet.ContainerError, match=message):
        repack(folder, tmp_path / "m.qpack")


def sharded(tmp_path):
    return Path(shutil.copytree(CHECKPOINTS / "q35-hf-bf16", tmp_path / "source"))


@pytest.mark.parametrize(
    "place", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", ".hidden", 7, "x\0y", "c:x"]
)
def test_shards_lie_in_the_folder(place, tmp_path):
    folder = sharded(tmp_path)
    index = folder / "model.safetensors.index.json"
    change_json(index, lambda content: content["weight_map"].update({"lm_head.weight": place}))
    with pytest.raises(swiftlet.ContainerError, match=r"lm_head.weight.*not a file name inside"):
        repack(folder, tmp_path / "m.qpack")


def test_names_a_missing_shard(tmp_path):
    folder = sharded(tmp_path)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(swiftlet.ContainerError, match="lacks the shard model-00002-of-00002"):
        repack(folder, tmp_path / "m.qpack")


def test_index_and_shards_must_agree(tmp_path):
    folder = sharded(tmp_path)
    index = folder / "model.safetensors.index.json"
    change_json(index, lambda content: content["weight_map"].update(ghost="model-00001-of-00002.safetensors"))
    with pytest.raises(swiftlet.ContainerError, match="no tensor ghost"):
        repack(folder, tmp_path / "m.qpack")


def test_a_tensor_lies_in_one_shard(tmp_path):
    folder = sharded(tmp_path)
    shard = folder / "model-00001-of-00002.safetensors"
    other = read_tensors(folder / "model-00002-of-00002.safetensors")
    write_tensors(shard, read_tensors(shard) | {"lm_head.weight": other["lm_head.weight"]})
    with pytest.raises(swiftlet.ContainerError, match=r"repeats tensor lm_head.weight"):
        repack(folder, tmp_path / "m.qpack")


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 0.5, -1])
def test_names_a_truncated_shard(keep, tmp_path):
    folder = sharded(tmp_path)
    shard = folder / "model-00002-of-00002.safetensors"
    data = shard.read_bytes()
    shard.write_bytes(data[: int(len(data) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(swiftlet.ContainerError, match="model-00002-of-00002"):
        repack(folder, tmp_path / "m.qpack")


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HEADERS = {
    "no JSON": b"{",
    "no object": b"[]",
    "no UTF-8": b'{"\xff": 1}',
    "nested without end": b"[" * 100_000,
    "a name twice": b'{"a": {}, "a": {}}',
    "no description": {"a": 3},
    "unknown dtype": {"a": entry(dtype="F12")},
    "dtype is no text": {"a": entry(dtype=["F32"])},
    "negative size": {"a": entry(shape=(-2,))},
    "a size that is true": {"a": entry(shape=(True, 2))},
    "sizes beyond 64 bits": {"a": entry(shape=(2**62, 2**62))},
    "a size of 2^63": {"a": entry(shape=(2**63,))},
    "end before begin": {"a": entry(offsets=(8, 0))},
    "beyond the end": {"a": entry(shape=(4,), offsets=(0, 16))},
    "bytes that do not fit the shape": {"a": entry(shape=(3,))},
    "three offsets": {"a": entry(offsets=(0, 8, 8))},
    "an overlap": {"a": entry(), "b": entry(shape=(1,), offsets=(4, 8))},
    "a gap": {"a": entry(shape=(1,), offsets=(4, 8))},
    "bytes that nobody owns": {"a": entry(shape=(1,), offsets=(0, 4))},
}


@pytest.mark.parametrize("case", HEADERS)
def test_refuses_a_hostile_header(case, tmp_path):
    header = HEADERS[case]
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    write_raw(folder / "model.safetensors", raw, bytes(8))
    with pytest.raises(swiftlet.ContainerError, match=r"source/model\.safetensors"):
        repack(folder, tmp_path / "m.qpack")


def test_refuses_a_header_longer_than_the_file(tmp_path):
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(swiftlet.ContainerError, match="truncated or no safetensors file"):
        repack(folder, tmp_path / "m.qpack")


def test_refuses_what_is_no_file(tmp_path):
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    with pytest.raises(swiftlet.ContainerError, match="is not a file"):
        repack(folder, tmp_path / "m.qpack")


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors", "."])
def test_says_what_is_missing(gone, tmp_path):
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    shutil.rmtree(folder) if gone == "." else (folder / gone).unlink()
    with pytest.raises(swiftlet.ContainerError, match="source"):
        repack(folder, tmp_path / "m.qpack")


def test_a_container_is_no_checkpoint(tmp_path):
    container = repack(CHECKPOINTS / "next-3bit", tmp_path / "m.qpack")
    with pytest.raises(swiftlet.ContainerError, match="container already"):
        repack(container, tmp_path / "n.qpack")


def test_documents_are_optional(tmp_path):
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    for name in COPIED:
        (folder / name).unlink()
    container = repack(folder, tmp_path / "m.qpack")
    assert verify(container, folder).ok
    assert sorted(p.name for p in container.iterdir() if p.is_file()) == sorted(
        ["config.json", "hashes.json", "manifest.json", "merges.txt", "model.safetensors", "vocab.json"]
    )


def test_repacking_gives_the_same_bytes(tmp_path):
    first = repack(CHECKPOINTS / "q35-hf-bf16", tmp_path / "a.qpack", bits=4)
    second = repack(CHECKPOINTS / "q35-hf-bf16", tmp_path / "b.qpack", bits=4)
    for path in first.rglob("*.*"):
        if path.is_file():
            assert path.read_bytes() == (second / path.relative_to(first)).read_bytes()


@pytest.mark.parametrize("overwrite", [False, True])
def test_leaves_other_folders_alone(overwrite, tmp_path):
    target = tmp_path / "m.qpack"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work")
    with pytest.raises(swiftlet.InputError, match=r"m\.qpack"):
        repack(CHECKPOINTS / "next-3bit", target, overwrite=overwrite)
    assert (target / "thesis.txt").read_text() == "years of work"


def test_replaces_a_container_only_when_told(tmp_path):
    target = repack(CHECKPOINTS / "next-3bit", tmp_path / "m.qpack")
    before = (target / "manifest.json").read_bytes()
    with pytest.raises(swiftlet.InputError, match="--overwrite"):
        repack(CHECKPOINTS / "q35-2bit", target)
    assert (target / "manifest.json").read_bytes() == before
    repack(CHECKPOINTS / "q35-2bit", target, overwrite=True)
    assert verify(target, CHECKPOINTS / "q35-2bit").ok
    assert names_in(tmp_path) == ["m.qpack"]


def test_a_failed_replacement_keeps_the_old(tmp_path, monkeypatch):
    target = repack(CHECKPOINTS / "next-3bit", tmp_path / "m.qpack")
    rename = Path.rename

    def refuse(path, new):
        if ".partial-" in path.name:
            raise OSError(errno.EACCES, "Permission denied")
        return rename(path, new)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(swiftlet.IoError, match="Permission denied"):
        repack(CHECKPOINTS / "q35-2bit", target, overwrite=True)
    assert names_in(tmp_path) == ["m.qpack"]
    assert verify(target, CHECKPOINTS / "next-3bit").ok


def test_the_target_needs_a_folder_to_lie_in(tmp_path):
    with pytest.raises(swiftlet.InputError, match="nowhere is not a folder"):
        repack(CHECKPOINTS / "next-3bit", tmp_path / "nowhere" / "m.qpack")


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.9])
def test_an_interrupt_leaves_nothing(moment, tmp_path):
    def interrupt(done, total, what):
        (partial,) = tmp_path.iterdir()
        assert ".partial-" in partial.name
        with pytest.raises(swiftlet.ContainerError, match="no complete container"):
            verify(partial)
        if done >= moment * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repack(CHECKPOINTS / "q35-overrides", tmp_path / "m.qpack", progress=interrupt)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("allowed", [0, 3, 40])
def test_a_disk_that_fills_up_is_reported_and_cleaned(allowed, tmp_path, monkeypatch):
    target = repack(CHECKPOINTS / "next-3bit", tmp_path / "m.qpack")
    pwrite, calls = os.pwrite, []

    def full(fd, data, offset):
        calls.append(offset)
        if len(calls) > allowed:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(swiftlet.IoError, match="the disk is full"):
        repack(CHECKPOINTS / "q35-2bit", target, overwrite=True)
    monkeypatch.undo()
    assert names_in(tmp_path) == ["m.qpack"]
    assert verify(target, CHECKPOINTS / "next-3bit").ok


def test_asks_for_room_before_it_begins(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    with pytest.raises(swiftlet.IoError, match="1,000 are free"):
        repack(CHECKPOINTS / "next-3bit", tmp_path / "m.qpack")
    assert names_in(tmp_path) == []


def test_short_writes_are_continued(tmp_path, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:1000], offset))
    container = repack(CHECKPOINTS / "next-3bit", tmp_path / "m.qpack")
    assert verify(container, CHECKPOINTS / "next-3bit").ok


def test_progress_counts_every_byte(tmp_path):
    calls = []
    container = repack(CHECKPOINTS / "next-3bit", tmp_path / "m.qpack", progress=lambda *call: calls.append(call))
    done = [call[0] for call in calls]
    assert done == sorted(done) and done[-1] == calls[-1][1]
    assert {call[2] for call in calls} >= {"model.safetensors", "packed_experts/layer_01.bin"}
    files = json.loads((container / "manifest.json").read_text())["files"]
    assert calls[-1][1] == sum(size for name, size in files.items() if name != "hashes.json")


@pytest.mark.parametrize("bits", [None, 4])
def test_memory_does_not_grow_with_tensors(bits, tmp_path):
    folder = copy_checkpoint("next-hf-f32", tmp_path / "source")
    rows = 260_000
    wide = np.random.default_rng(0).standard_normal((rows, 64), np.float32)
    change_tensors(folder, add("model.embed_tokens.weight", ("F32", [rows, 64], wide.tobytes())))
    change_json(folder / "config.json", lambda config: config.update(vocab_size=rows))
    nbytes = wide.nbytes
    del wide
    tracemalloc.start()
    container = repack(folder, tmp_path / "m.qpack", bits=bits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6 < nbytes
    assert verify(container, folder).ok
