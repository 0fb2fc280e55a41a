# Toolchain: macOS 14 on Apple silicon, compiled on any machine by zig's clang (pip install ziglang).
set(zig_target aarch64-macos.14.0)
include(${CMAKE_CURRENT_LIST_DIR}/zig-apple.cmake)
