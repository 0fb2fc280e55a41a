"""Writes a container into a temporary folder beside its target and moves it there when it is complete.

A folder named NAME.partial-... is never a container: its manifest.json is the last file written, and the name is
changed after that. Everything is flushed to the disk before the name changes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swiftlet._core import ContainerError, InputError, IoError

from .source import read_json

_HASH_BYTES = 4 << 20


@contextmanager
def staging(target: Path, nbytes: int, *, overwrite: bool) -> Iterator[Staging]:
    """A folder to write a container of `nbytes` into; it becomes `target` at the end, or vanishes after any error."""
    check_target(target, overwrite=overwrite)
    free = shutil.disk_usage(target.parent).free
    if free < nbytes:
        raise IoError(f"{target} needs {nbytes:,} bytes, but only {free:,} are free there; choose another disk")
    folder = target.with_name(f"{target.name}.partial-{secrets.token_hex(4)}")
    try:
        folder.mkdir()
        stage = Staging(folder)
        yield stage
        _sync_folders(folder)
        _move(folder, target)
    except OSError as error:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
        raise IoError(f"{target} could not be written: {reason}; nothing was kept") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Staging:
    """The files of an unfinished container, with their sizes and hashes. Paths are relative, with forward slashes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sizes: dict[str, int] = {}
        self.hashes: dict[str, str] = {}

    @contextmanager
    def file(self, name: str, nbytes: int) -> Iterator[OutputFile]:
        """A new file of `nbytes` zeros to be filled in. On leaving it is flushed and hashed as it can be read back."""
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.truncate(fd, nbytes)
            yield OutputFile(fd)
            self.sizes[name] = nbytes
            self.hashes[name] = sha256(fd)
            os.fsync(fd)
        finally:
            os.close(fd)

    def document(self, name: str, content: bytes) -> None:
        """A small file, written at once."""
        with self.file(name, len(content)) as file:
            file.write(0, content)


class OutputFile:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, offset: int, data: bytes) -> None:
        """Writes all of `data`; safe to call from many threads."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written


def sha256(fd: int) -> str:
    """SHA-256 of an open file, in hexadecimal."""
    digest, offset = hashlib.sha256(), 0
    while data := os.pread(fd, _HASH_BYTES, offset):
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()


def check_target(target: Path, *, overwrite: bool) -> None:
    """The target must be free, or a container that may be replaced."""
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder; make it first")
    if not target.exists():
        return
    if not overwrite:
        raise InputError(f"{target} exists; use --overwrite to replace it")
    if not is_container(target):
        raise InputError(f"{target} is not a container and will not be replaced; choose another name")


def is_container(folder: Path) -> bool:
    try:
        return read_json(folder / "manifest.json").get("magic") == "QPACK"
    except ContainerError:
        return False


def _sync_folders(folder: Path) -> None:
    for path in (folder / "packed_experts", folder):
        _sync(path)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _move(folder: Path, target: Path) -> None:
    """Gives the finished folder its name. What was there moves aside first and is deleted after."""
    old = target.with_name(f"{target.name}.replaced-{secrets.token_hex(4)}")
    replacing = target.exists()
    if replacing:
        target.rename(old)
    try:
        folder.rename(target)
    except BaseException:
        if replacing:
            old.rename(target)
        raise
    _sync(target.parent)
    if replacing:
        shutil.rmtree(old, ignore_errors=True)
