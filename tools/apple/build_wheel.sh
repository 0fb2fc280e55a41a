#!/usr/bin/env bash
# A wheel for macOS 14 on arm64, made without a Mac: tools/apple/build_wheel.sh [PYTHON]. It ends up in dist/.
# With Python 3.12 or later it serves all of those (abi3), with 3.11 that one.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$PWD/build/macos-wheel

"${1:-python3}" -m venv "$build/venv"
python=$build/venv/bin/python
"$python" -m pip install --quiet scikit-build-core nanobind nlohmann-json cmake ninja ziglang wheel
"$python" tools/apple/fetch_metal_cpp.py "$build/metal-cpp"
version=$("$python" -c 'import sys; print(f"cp3{sys.version_info.minor}")')
abi=$version stable=OFF
if [[ $version != cp311 ]]; then version=cp312 abi=abi3 stable=ON; fi

# The build tags the wheel for the machine that it runs on; what is inside is for a Mac.
rm -rf "$build/wheel"
PATH="$build/venv/bin:$PATH" "$python" -m pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir "$build/wheel" \
  -C build-dir="$build/cmake-$abi" -C cmake.define.SWIFTLET_STABLE_ABI=$stable \
  -C cmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig-macos-arm64.cmake" \
  -C cmake.define.METAL_CPP_DIR="$build/metal-cpp"
"$python" -m wheel tags --remove --python-tag "$version" --abi-tag "$abi" --platform-tag macosx_14_0_arm64 \
  "$build"/wheel/*.whl >/dev/null
mkdir -p dist
cp "$build"/wheel/*.whl dist/
ls "$build"/wheel/
