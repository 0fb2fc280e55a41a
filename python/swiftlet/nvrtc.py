"""Where NVIDIA's run-time compiler is: the CUDA backend looks for it in SWIFTLET_NVRTC, then where the system would."""

import os
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "SWIFTLET_NVRTC"


def find_nvrtc() -> Path | None:
    """libnvrtc.so of the installed package nvidia-cuda-nvrtc (of any CUDA version: the newest that is there)."""
    package = find_spec("nvidia")
    if package is None or package.submodule_search_locations is None:
        return None
    libraries = [
        library
        for folder in package.submodule_search_locations
        for library in Path(folder).glob("*/lib/libnvrtc.so.*")
        if library.suffix.removeprefix(".").isdigit()
    ]
    return max(libraries, key=lambda library: int(library.suffix.removeprefix(".")), default=None)


def announce_nvrtc() -> None:
    """Tells the CUDA backend where it is, unless the user has."""
    if VARIABLE not in os.environ and (library := find_nvrtc()) is not None:
        os.environ[VARIABLE] = str(library)
