# What the build makes of the shaders in metal/ with tools/msl (Python, standard library only).

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
file(GLOB shaders CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/metal/*.metal)
file(GLOB shader_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/metal/*.h)
file(GLOB shader_tools CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/msl/*.py ${CMAKE_SOURCE_DIR}/tools/msl/include/*.h)

# Runs tools/msl with the arguments after `output`, which is in the build folder.
function(msl what output)
  set(path ${CMAKE_BINARY_DIR}/shaders/${output})
  add_custom_command(
    OUTPUT ${path}
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${CMAKE_SOURCE_DIR}/tools ${Python_EXECUTABLE} -B -m msl ${what} ${ARGN}
            -I ${CMAKE_SOURCE_DIR}/metal -o ${path}
    DEPENDS ${ARGN} ${shader_headers} ${shader_tools}
    COMMENT "Shaders: ${output}"
    VERBATIM)
endfunction()

file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/shaders)
msl(embed embedded_shaders.cpp ${shaders})
target_sources(swiftlet_core PRIVATE ${CMAKE_BINARY_DIR}/shaders/embedded_shaders.cpp)

# GPUs of NVIDIA: the driver and NVRTC are opened at run time, so that every Linux build can have them.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cpp/backend/gpu/cuda/*.cpp)
  msl(embed-cuda embedded_cuda.cpp ${shaders})
  target_sources(swiftlet_core PRIVATE ${cuda_sources} ${CMAKE_BINARY_DIR}/shaders/embedded_cuda.cpp)
  target_compile_definitions(swiftlet_core PUBLIC SWIFTLET_CUDA)
  target_link_libraries(swiftlet_core PUBLIC ${CMAKE_DL_LIBS})
endif()

# Shaders translated to C++, as an object library. Not under the house's options: their warnings are the lint's, and the
# fibers that run them are no place for sanitizers. No contraction, as everywhere.
function(emulated_shaders target)
  set(sources)
  foreach(shader ${ARGN})
    get_filename_component(name ${shader} NAME_WE)
    msl(cpu emulated_${name}.cpp ${shader})
    list(APPEND sources ${CMAKE_BINARY_DIR}/shaders/emulated_${name}.cpp)
  endforeach()
  add_library(${target} OBJECT ${sources})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/cpp ${CMAKE_SOURCE_DIR}/tools/msl/include)
  # A vector at an address that is no multiple of its size traps: GPUs forbid it.
  target_compile_options(${target} PRIVATE -O2 -ffp-contract=off -w -fsanitize=alignment
                                           -fsanitize-undefined-trap-on-error)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    target_compile_options(${target} PRIVATE -mf16c -mfma)
  endif()
endfunction()

if(SWIFTLET_EMULATED_GPU)
  file(GLOB emulated_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cpp/backend/gpu/emulated/*.cpp)
  emulated_shaders(swiftlet_emulated_shaders ${shaders})
  msl(index emulated_index.cpp ${shaders})
  target_sources(swiftlet_core PRIVATE ${emulated_sources} $<TARGET_OBJECTS:swiftlet_emulated_shaders>
                                       ${CMAKE_BINARY_DIR}/shaders/emulated_index.cpp)
  target_compile_definitions(swiftlet_core PUBLIC SWIFTLET_EMULATED_GPU)
endif()
