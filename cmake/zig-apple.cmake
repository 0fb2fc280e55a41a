# What the two toolchains for Apple's systems share. zig has the headers of libc, libc++ and the kernel; the few lines
# that metal-cpp needs of frameworks are in tools/apple/include, and what may be linked is listed in tools/apple/stubs.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_PROCESSOR arm64)
set(SWIFTLET_DOTPROD_FLAG -mcpu=apple_a13 CACHE STRING "")  # zig knows processors by name only
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

# Python_EXECUTABLE must reach the small projects in which CMake tries the compiler.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES Python_EXECUTABLE)
if(NOT Python_EXECUTABLE)
  set(Python_EXECUTABLE python3)
endif()
execute_process(COMMAND ${Python_EXECUTABLE} -c "import os, ziglang; print(os.path.dirname(ziglang.__file__), end='')"
                OUTPUT_VARIABLE zig_folder RESULT_VARIABLE zig_missing)
if(zig_missing)
  message(FATAL_ERROR "ziglang not found: pip install ziglang, or set Python_EXECUTABLE")
endif()

set(zig ${zig_folder}/zig)
set(CMAKE_C_COMPILER ${zig} cc -target ${zig_target})
set(CMAKE_CXX_COMPILER ${zig} c++ -target ${zig_target})
foreach(language C CXX)
  set(CMAKE_${language}_ARCHIVE_CREATE "${zig} ar qc <TARGET> <OBJECTS>")
  set(CMAKE_${language}_ARCHIVE_FINISH "${zig} ranlib <TARGET>")
  # Said, not found out: CMake would link a program for that, and zig compile its libc++ first.
  set(CMAKE_${language}_COMPILER_ID_RUN TRUE)
  set(CMAKE_${language}_COMPILER_ID Clang)
  set(CMAKE_${language}_COMPILER_VERSION 18.0)
  set(CMAKE_${language}_COMPILER_FRONTEND_VARIANT GNU)
endforeach()
set(CMAKE_C_STANDARD_COMPUTED_DEFAULT 17)
set(CMAKE_CXX_STANDARD_COMPUTED_DEFAULT 17)
# Found on Macs only; nothing is installed with them here.
set(CMAKE_INSTALL_NAME_TOOL /bin/true)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY NEVER)

include_directories(SYSTEM ${CMAKE_CURRENT_LIST_DIR}/../tools/apple/include)
