# The benchmarks: swiftlet-bench for the CPU and streaming, bench_gpu.
add_custom_target(swiftlet_git_version
  COMMAND ${CMAKE_COMMAND} -DHEADER=${CMAKE_BINARY_DIR}/git_version/git_version.h -DFALLBACK=${PROJECT_VERSION}
          -P ${CMAKE_SOURCE_DIR}/cmake/git_version.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/git_version/git_version.h)
file(GLOB bench_sources CONFIGURE_DEPENDS benchmarks/swiftlet_bench/*.cpp)
add_executable(swiftlet_bench ${bench_sources})
set_target_properties(swiftlet_bench PROPERTIES OUTPUT_NAME swiftlet-bench)
target_include_directories(swiftlet_bench PRIVATE ${CMAKE_BINARY_DIR}/git_version)
target_link_libraries(swiftlet_bench PRIVATE swiftlet_core)
add_dependencies(swiftlet_bench swiftlet_git_version)

add_executable(bench_gpu benchmarks/bench_gpu.cpp)
target_link_libraries(bench_gpu PRIVATE swiftlet_core)
