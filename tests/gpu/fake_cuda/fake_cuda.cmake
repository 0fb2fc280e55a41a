# A CUDA driver and an NVRTC in software, under which the tests of the kernels run once more: for the host code of
# cuda_device.
add_library(fake_cuda SHARED tests/gpu/fake_cuda/fake_cuda.cpp cpp/backend/gpu/emulated/threadgroup.cpp
            $<TARGET_OBJECTS:swiftlet_emulated_shaders> ${CMAKE_BINARY_DIR}/shaders/emulated_index.cpp)
target_include_directories(fake_cuda PRIVATE cpp)
target_link_libraries(fake_cuda PRIVATE swiftlet_options)
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_cuda)

add_test(NAME swiftlet_gpu_tests_on_fake_cuda COMMAND swiftlet_gpu_tests)
set_tests_properties(swiftlet_gpu_tests_on_fake_cuda PROPERTIES ENVIRONMENT
  "SWIFTLET_GPU_DEVICE=cuda;LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/fake_cuda;SWIFTLET_NVRTC=$<TARGET_FILE:fake_cuda>")
