# Toolchain: iOS 17, static libraries only, compiled on any machine by zig's clang (pip install ziglang).
set(zig_target aarch64-ios.17.0)
include(${CMAKE_CURRENT_LIST_DIR}/zig-apple.cmake)
# zig brings libc headers for macOS; those of iOS are the same files.
include_directories(SYSTEM ${zig_folder}/lib/libc/include/any-darwin-any)
