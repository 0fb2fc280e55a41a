# The Metal backend: on Apple silicon, and on Linux over the software Metal of the tests.
set(metal_by_default OFF)
if(APPLE AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64")  # for iOS it can be empty
  set(metal_by_default ON)
endif()
option(SWIFTLET_METAL "Build the Metal backend (needs the headers of metal-cpp)" ${metal_by_default})
option(SWIFTLET_SOFTWARE_METAL "Build the Metal backend and its tests over a Metal in software (needs clang)" OFF)
if(NOT SWIFTLET_METAL AND NOT SWIFTLET_SOFTWARE_METAL)
  return()
endif()

# metal-cpp: METAL_CPP_DIR, or the headers in the package mlx-metal, which pyproject.toml requires on Macs.
if(NOT METAL_CPP_DIR)
  find_package(Python 3.11 COMPONENTS Interpreter QUIET)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; print(u.find_spec('mlx').submodule_search_locations[0], end='')"
    OUTPUT_VARIABLE mlx_package ERROR_QUIET)
endif()
find_path(METAL_CPP_DIR Metal/Metal.hpp HINTS ${mlx_package}/include/metal_cpp NO_CMAKE_FIND_ROOT_PATH)
if(NOT METAL_CPP_DIR)
  message(FATAL_ERROR "metal-cpp not found: pip install mlx-metal (elsewhere than on a Mac: "
                      "tools/apple/fetch_metal_cpp.py FOLDER), or set METAL_CPP_DIR")
endif()

# metal-cpp sends messages to null, which Objective-C allows and C++ does not: without this option clang takes a
# smart pointer that was moved from as a proof that the code after its destructor is never reached.
set(metal_options -fblocks -fno-delete-null-pointer-checks -isystem ${METAL_CPP_DIR})
file(GLOB metal_sources CONFIGURE_DEPENDS cpp/backend/gpu/metal/*.cpp)
target_sources(swiftlet_core PRIVATE ${metal_sources})
target_compile_definitions(swiftlet_core PUBLIC SWIFTLET_METAL)

if(SWIFTLET_SOFTWARE_METAL)
  include(${CMAKE_CURRENT_LIST_DIR}/software_metal.cmake)
else()
  # No symbol of CoreGraphics is used, but command-line programs without it get no default device.
  target_link_libraries(swiftlet_core PUBLIC "-framework Metal" "-framework Foundation" "-framework CoreGraphics" objc)
endif()
set_source_files_properties(${metal_sources} PROPERTIES COMPILE_OPTIONS "${metal_options}")
