"""Which libnvrtc the CUDA backend is told to open."""

import os
import sys
from pathlib import Path

import pytest

from swiftlet import nvrtc


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of packages that is searched, in place of what is installed."""
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.delenv(nvrtc.VARIABLE, raising=False)
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    return tmp_path


def install(packages: Path, folder: str, name: str) -> Path:
    library = packages / "nvidia" / folder / "lib" / name
    library.parent.mkdir(parents=True, exist_ok=True)
    library.touch()
    return library


def test_the_newest_of_the_packages(packages):
    install(packages, "cuda_nvrtc", "libnvrtc.so.12")
    install(packages, "cu13", "libnvrtc-builtins.so.13.5")
    newest = install(packages, "cu13", "libnvrtc.so.13")
    assert nvrtc.find_nvrtc() == newest


def test_no_package(packages):
    assert nvrtc.find_nvrtc() is None
    nvrtc.announce_nvrtc()
    assert nvrtc.VARIABLE not in os.environ


def test_what_the_user_says_stays(packages, monkeypatch):
    library = install(packages, "cu13", "libnvrtc.so.13")
    nvrtc.announce_nvrtc()
    assert os.environ[nvrtc.VARIABLE] == str(library)
    monkeypatch.setenv(nvrtc.VARIABLE, "/opt/libnvrtc.so")
    nvrtc.announce_nvrtc()
    assert os.environ[nvrtc.VARIABLE] == "/opt/libnvrtc.so"
