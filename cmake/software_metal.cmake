# The Metal in software, in place of Apple's frameworks. Included by metal.cmake.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "SWIFTLET_SOFTWARE_METAL needs clang, which knows blocks: set CXX=clang++")
endif()
if(NOT SWIFTLET_EMULATED_GPU)
  message(FATAL_ERROR "SWIFTLET_SOFTWARE_METAL runs shaders on the emulated GPU: set SWIFTLET_EMULATED_GPU=ON")
endif()
set(software_metal ${CMAKE_SOURCE_DIR}/tests/software_metal)
list(APPEND metal_options -isystem ${software_metal}/include -isystem ${CMAKE_SOURCE_DIR}/tools/apple/include)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64")
  list(APPEND metal_options -D__arm64__)  # Apple's name for it, which metal-cpp asks for
endif()

file(GLOB software_metal_sources CONFIGURE_DEPENDS ${software_metal}/*.cpp)
add_library(software_metal STATIC ${software_metal_sources})
target_include_directories(software_metal PUBLIC ${software_metal})
# Each needs the other: the core calls Metal, which runs shaders in the core's emulation.
target_link_libraries(software_metal PUBLIC swiftlet_core ${CMAKE_DL_LIBS})
target_link_libraries(swiftlet_core PUBLIC software_metal)

# Sources that are not in metal/ are compiled while the tests run.
set(shader_flags)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(shader_flags "-mf16c -mfma")
endif()
target_compile_definitions(software_metal PRIVATE
  SOFTWARE_METAL_SOURCE="${CMAKE_SOURCE_DIR}" SOFTWARE_METAL_CACHE="${CMAKE_BINARY_DIR}/shaders"
  SOFTWARE_METAL_PYTHON="${Python_EXECUTABLE}" SOFTWARE_METAL_COMPILER="${CMAKE_CXX_COMPILER}"
  SOFTWARE_METAL_FLAGS="${shader_flags}")

if(SWIFTLET_TESTS)
  find_package(doctest REQUIRED)
  file(GLOB metal_test_sources CONFIGURE_DEPENDS tests/metal/*.cpp)
  add_executable(swiftlet_metal_tests ${metal_test_sources})
  set_source_files_properties(${metal_test_sources} PROPERTIES COMPILE_OPTIONS "${metal_options}")
  target_include_directories(swiftlet_metal_tests PRIVATE metal)
  target_link_libraries(swiftlet_metal_tests PRIVATE software_metal doctest::doctest)
  set_target_properties(swiftlet_metal_tests PROPERTIES ENABLE_EXPORTS ON)  # for shaders that are loaded
  add_test(NAME swiftlet_metal_tests COMMAND swiftlet_metal_tests)
  # The tests of the kernels are defined after this file: the same program, on this device.
  add_test(NAME swiftlet_gpu_tests_on_metal COMMAND swiftlet_gpu_tests)
  set_tests_properties(swiftlet_gpu_tests_on_metal PROPERTIES ENVIRONMENT "SWIFTLET_GPU_DEVICE=metal;SOFTWARE_METAL_LEAKS=1")
endif()
