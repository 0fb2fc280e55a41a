import argparse
import json
import shutil

import pytest

import swiftlet
from checkpoint_files import change_json
from reference import CHECKPOINTS, NAMES
from swiftlet.cli import repack as repack_command
from swiftlet.cli import verify as verify_command
from swiftlet.models import DEMO
from swiftlet.repack import repack, verify

NAME = "q35-overrides"
SOURCE = CHECKPOINTS / NAME


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return repack(SOURCE, tmp_path_factory.mktemp("verify") / "m.qpack")


@pytest.fixture
def container(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "m.qpack")


def flip(path, place):
    """Changes one bit of the byte at `place` (a fraction of the file, or an offset)."""
    data = bytearray(path.read_bytes())
    data[int(place * len(data)) if isinstance(place, float) else place] ^= 4
    path.write_bytes(data)


def found(result):
    return {(problem.file, problem.where) for problem in result.problems}


def files(container):
    return json.loads((container / "manifest.json").read_text())["files"]


QUANTIZABLE = [name for name in NAMES if "hf" in name or "mlx-bf16" in name]


@pytest.mark.parametrize(("name", "bits"), [(n, None) for n in NAMES] + [(n, 4) for n in QUANTIZABLE])
def test_a_fresh_container_is_well(name, bits, tmp_path):
    container = repack(CHECKPOINTS / name, tmp_path / "m.qpack", bits=bits)
    result = verify(container, CHECKPOINTS / name)
    assert result.ok and result.hashed and result.compared
    assert (result.files, result.bytes) == (len(files(container)), sum(files(container).values()))


def test_the_demo_is_well():
    result = verify(DEMO)
    assert result.ok and result.hashed


@pytest.mark.parametrize("place", [0.0, 0.5, -1])
def test_a_flipped_bit_names_its_file(place, pristine, tmp_path):
    for name in files(pristine):
        if name == "hashes.json":
            continue
        container = shutil.copytree(pristine, tmp_path / name / "m.qpack")
        flip(container / name, place)
        assert {problem.file for problem in verify(container).problems} == {name}
        shutil.rmtree(container)


def test_flipped_hashes_are_noticed(container):
    flip(container / "hashes.json", 0.5)
    assert not verify(container).ok


def test_the_source_says_which_expert_was_changed(container):
    layout = json.loads((container / "packed_experts/layout.json").read_text())
    section = layout["sections"][4]
    assert section["name"] == "up_proj.scales"
    at = 3 * layout["expertStride"] + section["offset"] + 5
    flip(container / "packed_experts/layer_02.bin", at)
    result = verify(container, SOURCE)
    assert found(result) == {
        ("packed_experts/layer_02.bin", ""),
        ("packed_experts/layer_02.bin", "expert 3, up_proj.scales"),
    }
    assert f"byte {at:,}" in result.problems[-1].what


def test_the_source_says_which_tensor_was_changed(container):
    flip(container / "model.safetensors", -1)
    places = found(verify(container, SOURCE))
    assert ("model.safetensors", "") in places and len(places) == 2
    assert all(file == "model.safetensors" for file, _ in places)


def test_swapped_experts_are_noticed_without_hashes(container):
    path = container / "packed_experts/layer_00.bin"
    stride = json.loads((container / "packed_experts/layout.json").read_text())["expertStride"]
    data = path.read_bytes()
    path.write_bytes(data[stride : 2 * stride] + data[:stride] + data[2 * stride :])
    (container / "hashes.json").unlink()
    change_json(container / "manifest.json", lambda manifest: manifest["files"].pop("hashes.json"))
    assert verify(container).ok
    places = found(verify(container, SOURCE))
    assert {where.split(",")[0] for _, where in places} == {"expert 0", "expert 1"}


def test_without_hashes_only_the_structure_is_checked(container):
    (container / "hashes.json").unlink()
    change_json(container / "manifest.json", lambda manifest: manifest["files"].pop("hashes.json"))
    flip(container / "model.safetensors", -1)
    result = verify(container)
    assert result.ok and not result.hashed and not result.compared
    assert not verify(container, SOURCE).ok


def test_another_checkpoint_is_not_the_source(container):
    result = verify(container, CHECKPOINTS / "q35-4bit-mtp")
    assert not result.ok
    assert {"model.safetensors", "packed_experts/layer_01.bin"} <= {problem.file for problem in result.problems}


def test_a_checkpoint_of_other_dimensions_is_not_the_source(container):
    assert ("packed_experts/layout.json", "") in found(verify(container, CHECKPOINTS / "q35-2bit"))


@pytest.mark.parametrize("name", ["model.safetensors", "packed_experts/layer_03.bin", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "longer"])
def test_names_the_file_of_the_wrong_size(name, damage, container):
    path = container / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3] if damage == "truncated" else path.read_bytes() + b" ")
    result = verify(container, SOURCE if name.startswith("packed") else None)
    assert {problem.file for problem in result.problems} == {name}


MANIFESTS = {
    "magic": {"magic": "QPAK"},
    "version": {"version": 2},
    "files": {"files": []},
    "sizes": {"files": {"config.json": "7"}},
    "path": {"files": {"../../secret": 7}},
    "absolute": {"files": {"/etc/passwd": 7}},
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_refuses_a_manifest_that_lies(case, container):
    change_json(container / "manifest.json", lambda manifest: manifest.update(MANIFESTS[case]))
    assert "manifest.json" in {problem.file for problem in verify(container).problems}


def section(index, **change):
    return lambda layout: layout["sections"][index].update(change)


LAYOUTS = {
    "no experts": lambda layout: layout.pop("expertCount"),
    "an expert too many": lambda layout: layout.update(expertCount=7),
    "layers without end": lambda layout: layout.update(layerCount=10**12),
    "another kind of layer": lambda layout: layout.update(linearLayers=[True] * 4),
    "odd stride": lambda layout: layout.update(expertStride=20000),
    "no stride": lambda layout: layout.update(expertStride=0, sections=[]),
    "no sections": lambda layout: layout.update(sections=[]),
    "sections of a layer that is not there": lambda layout: layout["layers"].update({"4": layout["layers"]["1"]}),
    "sections of layer one": lambda layout: layout["layers"].update({"one": layout["layers"]["1"]}),
    "a section beyond the stride": section(8, offset=1 << 20),
    "an overlap": section(1, offset=16),
    "a negative offset": section(0, offset=-16),
    "another size": section(0, size=4),
    "another dtype": section(0, dtype="F64"),
    "unknown dtype": section(0, dtype="U31"),
    "another shape": section(0, shape=[32, 16]),
    "another name": section(0, name="gate_proj.wait"),
    "a name twice": section(1, name="gate_proj.weight"),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_refuses_a_layout_that_lies(case, container):
    change_json(container / "packed_experts/layout.json", LAYOUTS[case])
    size = (container / "packed_experts/layout.json").stat().st_size
    change_json(
        container / "manifest.json", lambda manifest: manifest["files"].update({"packed_experts/layout.json": size})
    )
    (container / "hashes.json").unlink()
    problems = [problem for problem in verify(container).problems if problem.file != "hashes.json"]
    assert problems and all(problem.file == "packed_experts/layout.json" for problem in problems)


def test_config_and_tensors_must_agree(container):
    change_json(container / "config.json", lambda config: config["text_config"].update(hidden_size=128))
    assert "model.safetensors" in {problem.file for problem in verify(container).problems}


def test_there_must_be_a_container(tmp_path):
    with pytest.raises(swiftlet.ContainerError, match=r"no manifest\.json"):
        verify(tmp_path)


def test_progress_reaches_the_end(pristine):
    calls = []
    verify(pristine, SOURCE, progress=lambda *call: calls.append(call))
    done = [call[0] for call in calls]
    assert done == sorted(done) and done[-1] <= calls[-1][1]


def run(command, *words):
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    args = parser.parse_args([str(word) for word in words])
    return args.run(args)


def test_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(repack_command, "repack", CHECKPOINTS / "q35-hf-bf16", "--bits", 4) == 0
    assert "q35-hf-bf16.qpack" in capsys.readouterr().out
    assert run(verify_command, "verify", "q35-hf-bf16.qpack", "--source", CHECKPOINTS / "q35-hf-bf16") == 0
    assert "all is well" in capsys.readouterr().out
    flip(tmp_path / "q35-hf-bf16.qpack/tokenizer.json", 0.5)
    assert run(verify_command, "verify", "q35-hf-bf16.qpack") == 2
    out = capsys.readouterr().out
    assert "tokenizer.json: was changed" in out and "1 problem" in out


def test_verify_says_when_there_is_nothing_to_hash(container, capsys):
    (container / "hashes.json").unlink()
    change_json(container / "manifest.json", lambda manifest: manifest["files"].pop("hashes.json"))
    assert run(verify_command, "verify", container) == 0
    assert "no hashes.json" in capsys.readouterr().out
