# Toolchain: macOS 14 on Apple silicon, compiled on any machine by zig's clang (pip install ziglang).
set(zig_target aarch64-macos.14.0)
include(${CMAKE_CURRENT_LIST_DIR}/zig-apple.cmake)
# What may be linked of Apple's libraries; libSystem's symbols zig knows itself, and its libc++ is linked statically, since
# its headers are newer than the libc++ of macOS 14.
set(SWIFTLET_APPLE_STUBS ${CMAKE_CURRENT_LIST_DIR}/../tools/apple/stubs)
add_link_options(-F${SWIFTLET_APPLE_STUBS} -L${SWIFTLET_APPLE_STUBS})
