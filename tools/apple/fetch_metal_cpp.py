"""Puts the headers of metal-cpp into a folder, for builds that are not on a Mac: fetch_metal_cpp.py FOLDER.

They are part of the wheel mlx-metal (Apache-2.0). On a Mac that package is a requirement of the build itself.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

INSIDE = PurePosixPath("mlx/include/metal_cpp")
DOWNLOAD = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--platform", "macosx_14_0_arm64"]


def fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as downloads:
        subprocess.run([sys.executable, "-m", "pip", *DOWNLOAD, "--dest", downloads, "mlx-metal"], check=True)
        (wheel,) = Path(downloads).glob("mlx_metal-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                path = PurePosixPath(name)
                if not path.is_relative_to(INSIDE) or ".." in path.parts or name.endswith("/"):
                    continue
                target = folder / path.relative_to(INSIDE)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = Path(sys.argv[1])
    if not (target / "Metal/Metal.hpp").exists():
        fetch(target)
