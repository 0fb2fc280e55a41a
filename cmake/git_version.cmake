# Writes the header that says which version a program is of: cmake -DHEADER=FILE -DFALLBACK=VERSION -P git_version.cmake.
# Run with every build, for a commit configures nothing anew; the file changes only when the version does.
execute_process(COMMAND git describe --always --dirty WORKING_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}
                OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT version)
  set(version ${FALLBACK})
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#pragma once\n\n#define SWIFTLET_GIT_VERSION \"${version}\"\n" @ONLY)
