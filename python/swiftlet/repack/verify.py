"""Checks a container: structure, sizes, hashes and, given the checkpoint it was made from, every byte."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from swiftlet._core import ContainerError, IoError

from . import names
from .dimensions import Dimensions, parse_config
from .encoding import Quantization, Spec, describe
from .layout import ExpertLayout, parse_layout
from .pieces import Work
from .plan import CONFIG, LAYOUT, RESIDENT, Plan, check_resident, layer_file, make_plan
from .source import Extent, Reader, Tensor, file_bytes, is_plain_name, open_checkpoint, read_header, read_json
from .work import Progress, in_threads
from .writer import sha256

MANIFEST = "manifest.json"
HASHES = "hashes.json"


@dataclass(frozen=True, slots=True)
class Problem:
    file: str  # relative to the container
    where: str  # a tensor, an expert's section, or "" for the file as a whole
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.where + ': ' if self.where else ''}{self.what}"


@dataclass(slots=True)
class VerifyResult:
    container: Path
    files: int = 0  # that the manifest lists
    bytes: int = 0  # of them all
    hashed: bool = False  # the container has hashes, and they were checked
    compared: bool = False  # the bytes were compared with the checkpoint's
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    @contextmanager
    def _noting(self, file: str) -> Iterator[None]:
        """Turns an error about a file into a problem of it."""
        try:
            yield
        except (ContainerError, IoError) as error:
            self.problems.append(Problem(file, "", str(error)))


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a container's own files say is in it."""

    manifest: dict[str, Any]
    resident: dict[str, Tensor]
    experts: int
    layouts: list[ExpertLayout]


def verify(
    container: str | Path, source: str | Path | None = None, *, progress: Progress | None = None
) -> VerifyResult:
    """Checks every file of a container and reports all problems.

    Always: manifest, config, layout, tensor shapes and file sizes. If the container has hashes.json: the SHA-256 of
    every file. With `source`, the checkpoint's folder: every resident tensor and every expert, byte for byte; what was
    quantized on the way is quantized again. Raises ContainerError if there is no container at `container`, or no usable
    checkpoint at `source`.
    """
    folder = Path(container)
    if not (folder / MANIFEST).exists():
        raise ContainerError(
            f"{folder} has no {MANIFEST}, so it is no complete container; make it with swiftlet repack"
        )
    result = VerifyResult(folder)
    sizes: dict[str, int] = {}
    contents = None
    with result._noting(MANIFEST):
        manifest = read_json(folder / MANIFEST)
        sizes = _check_manifest(result, manifest)
        contents = _check_structure(result, manifest, sizes)
    plan = None
    if source is not None and contents is not None:
        plan = make_plan(open_checkpoint(Path(source)), _quantization(contents.manifest))
    meter = _Meter(result.bytes * (2 if plan else 1), progress)
    _check_hashes(result, sizes, meter)
    if plan and contents:
        _compare(result, contents, plan, meter)
        result.compared = True
    return result


class _Meter:
    """Counts bytes towards a total and reports them."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def advance(self, nbytes: int, file: str) -> None:
        self._done += nbytes
        if self._progress:
            self._progress(min(self._done, self._total), self._total, file)


def _check_manifest(result: VerifyResult, manifest: dict[str, Any]) -> dict[str, int]:
    """Checks the listed files; returns the sizes of those that are there."""
    where = result.container / MANIFEST
    if manifest.get("magic") != "QPACK" or manifest.get("version") != 1:
        found = f"magic {manifest.get('magic')!r} and version {manifest.get('version')!r}"
        raise ContainerError(f"{where} has {found}; only QPACK version 1 is known")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(type(size) is int for size in files.values()):
        raise ContainerError(f"{where} has no list of files with their sizes")
    sizes = {}
    for name, expected in files.items():
        if not all(is_plain_name(part) for part in name.split("/")):
            result.problems.append(Problem(MANIFEST, "files", f"{name!r} is not a path inside the container"))
            continue
        result.files += 1
        with result._noting(name):
            sizes[name] = file_bytes(result.container / name)
            result.bytes += sizes[name]
            if sizes[name] != expected:
                result.problems.append(Problem(name, "", f"has {sizes[name]:,} bytes instead of {expected:,}"))
    for name in (CONFIG, RESIDENT, LAYOUT):
        if name not in files:
            result.problems.append(Problem(MANIFEST, "files", f"{name} is not listed"))
    return sizes


def _check_structure(result: VerifyResult, manifest: dict[str, Any], sizes: dict[str, int]) -> _Contents | None:
    """Checks config, tensors and layout against each other; None if one of them cannot be read."""
    folder = result.container
    dimensions = resident = layouts = None
    experts = 0
    with result._noting(CONFIG):
        dimensions = parse_config(read_json(folder / CONFIG), folder / CONFIG)
    with result._noting(RESIDENT):
        resident = read_header(folder / RESIDENT)
        if dimensions:
            by_name = {names.canonical(t.name) or t.name: Spec(t.name, t.dtype, t.shape) for t in resident.values()}
            check_resident(by_name, dimensions, RESIDENT)
    with result._noting(LAYOUT):
        experts, linear, layouts = parse_layout(read_json(folder / LAYOUT), str(folder / LAYOUT))
        if dimensions:
            _check_layout(result, dimensions, experts, linear, layouts)
        for layer, layout in enumerate(layouts):
            name = layer_file(layer)
            if layout.stride and name not in sizes and not any(problem.file == name for problem in result.problems):
                result.problems.append(Problem(name, "", f"is not listed in {MANIFEST}"))
            elif layout.stride and sizes.get(name, experts * layout.stride) != experts * layout.stride:
                expected = f"{experts} experts of {layout.stride:,} bytes"
                result.problems.append(Problem(name, "", f"has {sizes[name]:,} bytes instead of {expected}"))
    return _Contents(manifest, resident, experts, layouts) if resident is not None and layouts is not None else None


def _check_layout(
    result: VerifyResult, dimensions: Dimensions, experts: int, linear: list[bool], layouts: list[ExpertLayout]
) -> None:
    where = result.container / LAYOUT
    if experts != dimensions.num_experts or tuple(linear) != dimensions.linear_layers:
        raise ContainerError(f"{where} and {CONFIG} disagree about the number of experts or the kinds of the layers")
    for layer, (layout, moe) in enumerate(zip(layouts, dimensions.moe_layers, strict=True)):
        if bool(layout.stride) != moe:
            raise ContainerError(f"{where} and {CONFIG} disagree about whether layer {layer} has experts")
        specs = layout.specs()
        for matrix in names.MATRICES if moe else ():
            weight, scales, biases = (specs.get(f"{matrix}.{part}") for part in names.FIELDS)
            if weight is None:
                raise ContainerError(f"{where} has no section {matrix}.weight for layer {layer}")
            describe(f"{matrix} of layer {layer} in {where}", dimensions.expert_shape(matrix), weight, scales, biases)


def _check_hashes(result: VerifyResult, sizes: dict[str, int], meter: _Meter) -> None:
    path = result.container / HASHES
    if not path.exists():
        return
    result.hashed = True
    with result._noting(HASHES):
        hashes = read_json(path).get("files")
        if not isinstance(hashes, dict):
            raise ContainerError(f"{path} has no list of files with their hashes")
        hashed = [name for name in sizes if name not in (HASHES, MANIFEST)]
        for name, digest in zip(hashed, in_threads(partial(_hash, result.container), hashed), strict=True):
            meter.advance(sizes[name], name)
            if name not in hashes:
                result.problems.append(Problem(HASHES, "", f"{name} has no hash"))
            elif digest != hashes[name]:
                result.problems.append(Problem(name, "", f"was changed: its SHA-256 is not the one in {HASHES}"))


def _hash(folder: Path, name: str) -> str:
    fd = os.open(folder / name, os.O_RDONLY)
    try:
        return sha256(fd)
    finally:
        os.close(fd)


def _quantization(manifest: dict[str, Any]) -> Quantization | None:
    """How the checkpoint's weights were quantized on their way into the container, if they were."""
    details = manifest.get("format")
    done = details.get("quantizedByWriter") if isinstance(details, dict) else None
    if not isinstance(done, dict):
        return None
    bits, group_size = done.get("bits"), done.get("groupSize")
    if type(bits) is not int or type(group_size) is not int:
        raise ContainerError(f"{MANIFEST} has a quantizedByWriter of {done!r}, which says no bits and group size")
    return Quantization(bits, group_size)


def _compare(result: VerifyResult, contents: _Contents, plan: Plan, meter: _Meter) -> None:
    """Compares every byte that the plan produces with what the container holds."""
    if len(contents.layouts) != len(plan.layouts) or contents.experts != plan.dimensions.num_experts:
        result.problems.append(Problem(LAYOUT, "", "has other numbers of layers or experts than the checkpoint"))
        return
    with Reader() as reader:

        def check(file: str, work: Iterable[Work]) -> None:
            seen: set[str] = set()
            with result._noting(file):
                for problems, nbytes in in_threads(partial(_differences, reader, result.container / file, file), work):
                    meter.advance(nbytes, file)
                    result.problems.extend(p for p in problems if p.where not in seen)
                    seen.update(p.where for p in problems)

        for item in plan.documents:
            if item.name in contents.manifest["files"]:
                check(item.name, (Work(piece, (0,)) for piece in item.pieces()))
        if plan.config is not None and (result.container / CONFIG).read_bytes() != plan.config:
            result.problems.append(Problem(CONFIG, "", "differs from what the checkpoint gives"))
        stored = {t.name: Spec(t.name, t.dtype, t.shape) for t in contents.resident.values()}
        if _same_specs(result, RESIDENT, stored, {spec.name: spec for spec in plan.resident_specs()}):
            check(RESIDENT, plan.resident_work({t.name: t.extent.offset for t in contents.resident.values()}))
        for layer, (layout, planned) in enumerate(zip(contents.layouts, plan.layouts, strict=True)):
            if _same_specs(result, layer_file(layer), layout.specs(), planned.specs()):
                check(layer_file(layer), plan.layer_work(layer, layout))


def _same_specs(result: VerifyResult, file: str, stored: dict[str, Spec], planned: dict[str, Spec]) -> bool:
    """Whether a file has the tensors that the checkpoint gives, in the same dtypes and shapes."""
    for name in sorted(stored.keys() | planned.keys()):
        has, should = stored.get(name), planned.get(name)
        if should is None or has is None:
            what = "is not in the checkpoint" if has else "is missing"
            result.problems.append(Problem(file, name, what))
        elif has != should:
            what = f"is {has.dtype} {list(has.shape)} instead of {should.dtype} {list(should.shape)}"
            result.problems.append(Problem(file, name, what))
    return stored == planned


def _differences(reader: Reader, path: Path, file: str, work: Work) -> tuple[list[Problem], int]:
    """Problems of one piece of work, and the bytes that were compared."""
    problems, nbytes = [], 0
    for name, offset, data in work.produce(reader):
        expected = np.frombuffer(data, np.uint8)
        stored = np.frombuffer(reader.read(Extent(path, offset, expected.size)), np.uint8)
        nbytes += expected.size
        if not np.array_equal(stored, expected):
            first = offset + int(np.argmax(stored != expected))
            where = name if work.expert is None else f"expert {work.expert}, {name}"
            problems.append(Problem(file, where, f"differs from the checkpoint from byte {first:,} of the file on"))
    return problems, nbytes
