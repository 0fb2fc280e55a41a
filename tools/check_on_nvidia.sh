#!/usr/bin/env bash
# On a machine with an NVIDIA card and its driver: every kernel and whole models on the card, against the CPU. Needs cmake,
# ninja, doctest and a compiler; NVIDIA's run-time compiler comes with pip. Stops at the first failure.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/check-on-nvidia
python3 -m venv "$build/venv"
python=$PWD/$build/venv/bin/python

"$python" -m pip install --quiet '.[cuda,test]' nanobind nlohmann-json scikit-build-core
cmake -S . -B "$build/cmake" -G Ninja -DSWIFTLET_TESTS=ON -DSWIFTLET_EMULATED_GPU=ON -DPython_EXECUTABLE="$python"
cmake --build "$build/cmake" --target swiftlet_gpu_tests
SWIFTLET_NVRTC=${SWIFTLET_NVRTC:-$("$python" -c "from swiftlet.nvrtc import find_nvrtc; print(find_nvrtc() or '')")}
export SWIFTLET_NVRTC
SWIFTLET_GPU_DEVICE=cuda "$build/cmake/swiftlet_gpu_tests"
"$python" -m pytest -q tests/python/test_gpu.py
"$build/venv/bin/swiftlet" doctor
echo "Everything passed."
