#!/usr/bin/env bash
# On a Mac with Apple silicon: checks the Metal backend with everything there is, and writes metal-report.txt to paste
# into an issue. Needs Xcode's command line tools and: brew install python cmake ninja doctest
set -uo pipefail
cd "$(dirname "$0")/../.."
build=build/check-on-mac
report=metal-report.txt
: >"$report"
failed=0

say() { printf '%s\n' "$*" | tee -a "$report"; }

# A title and a command; its last lines go into the report, whatever happens.
check() {
  local title=$1 log=$build/log.txt
  shift
  say "" "== $title"
  if "$@" >"$log" 2>&1; then
    tail -n 40 "$log" | tee -a "$report"
  else
    failed=1
    tail -n 200 "$log" | tee -a "$report"
    say "FAILED: $title"
  fi
}

mkdir -p "$build"
python3 -m venv "$build/venv"
python=$PWD/$build/venv/bin/python
say "$(git rev-parse --short HEAD 2>/dev/null), $(sw_vers -productVersion), $(sysctl -n machdep.cpu.brand_string)," \
  "$(($(sysctl -n hw.memsize) >> 30)) GiB, $(clang --version | head -n 1)"

# Apple's validation of every call, as far as the system offers it; not for the measurements.
validated=(env MTL_DEBUG_LAYER=1 MTL_DEBUG_LAYER_ERROR_MODE=assert)

check "pip install" "$python" -m pip install --quiet '.[test]' nanobind nlohmann-json scikit-build-core mlx-metal
check "configure" cmake -S . -B "$build/cmake" -G Ninja -DSWIFTLET_TESTS=ON -DSWIFTLET_EMULATED_GPU=ON \
  -DPython_EXECUTABLE="$python"
check "build" cmake --build "$build/cmake" --target swiftlet_gpu_tests swiftlet_capi_test
check "kernels against the CPU" "${validated[@]}" SWIFTLET_GPU_DEVICE=metal "$build/cmake/swiftlet_gpu_tests"
check "the C interface" "$build/cmake/swiftlet_capi_test" python/swiftlet/demo.qpack
check "models against the CPU and mlx-lm" "${validated[@]}" "$python" -m pytest -q tests/python/test_gpu.py
check "the rest of the Python tests" "$python" -m pytest -q -x
check "swiftlet doctor" "$build/venv/bin/swiftlet" doctor

say "" "$([[ $failed == 0 ]] && echo "Everything passed." || echo "Something failed: see above.")" "Report: $report"
exit $failed
