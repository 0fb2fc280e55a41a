# The interface for apps in C (cpp/capi/swiftlet.h): part of the core, so that an app links one library.
target_sources(swiftlet_core PRIVATE cpp/capi/swiftlet.cpp)

# Its test is in C. Built also where it cannot be run, as a proof that everything links.
option(SWIFTLET_CAPI_TEST "Build the test of the C interface" ${SWIFTLET_TESTS})
if(SWIFTLET_CAPI_TEST)
  enable_language(C)
  add_executable(swiftlet_capi_test tests/capi/test_capi.c)
  set_target_properties(swiftlet_capi_test PROPERTIES C_STANDARD 11 LINKER_LANGUAGE CXX)
  target_link_libraries(swiftlet_capi_test PRIVATE swiftlet_core)
  add_test(NAME swiftlet_capi COMMAND swiftlet_capi_test ${CMAKE_SOURCE_DIR}/python/swiftlet/demo.qpack)
  if(SWIFTLET_SOFTWARE_METAL)
    add_test(NAME swiftlet_capi_on_metal
             COMMAND swiftlet_capi_test ${CMAKE_SOURCE_DIR}/python/swiftlet/demo.qpack metal)
    set_tests_properties(swiftlet_capi_on_metal PROPERTIES ENVIRONMENT SOFTWARE_METAL_LEAKS=1)
  endif()
endif()
