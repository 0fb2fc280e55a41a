// Shaders with faults that the emulated device must find (test_emulated_device.cpp).
#include <metal_stdlib>
using namespace metal;

constant uint LIMIT [[function_constant(0)]];

struct BadArgs {
  uint n;
};

kernel void reverse(const device float* x [[buffer(0)]], device float* out [[buffer(1)]],
                    uint tid [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  threadgroup float values[64];
  values[tid] = x[tid];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = values[threads - 1 - tid];
}

kernel void reverse_without_barrier(const device float* x [[buffer(0)]], device float* out [[buffer(1)]],
                                    uint tid [[thread_index_in_threadgroup]],
                                    uint threads [[threads_per_threadgroup]]) {
  threadgroup float values[64];
  values[tid] = x[tid];
  out[tid] = values[threads - 1 - tid];
}

kernel void divergent_sum(device float* x [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
  if (tid < 7) {
    x[tid] = simd_sum(x[tid]);
  } else {
    x[tid] = simd_sum(x[tid]);
  }
}

kernel void divergent_operation(device float* x [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
  x[tid] = tid < 7 ? simd_sum(x[tid]) : simd_max(x[tid]);
}

kernel void sum_after_return(device float* x [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
  if (tid == 40) {
    return;
  }
  x[tid] = simd_sum(x[tid]);
}

kernel void divergent_barrier(device float* x [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
  if (tid < 32) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  x[tid] = 1.0f;
}

kernel void different_barriers(device float* x [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
  if (tid < 32) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[tid] = 1.0f;
  } else {
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

kernel void uninitialised(device float* x [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float values[64];
  if (tid == 0) {
    values[0] = 1.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[tid] = values[tid];
}

kernel void too_much_threadgroup_memory(device float* x [[buffer(0)]], uint tid [[thread_index_in_threadgroup]]) {
  threadgroup float values[8192], more[1];
  values[tid] = 0.0f;
  more[0] = 0.0f;
  x[tid] = values[tid] + more[0];
}

kernel void copy(const device float* x [[buffer(0)]], device float* out [[buffer(1)]], constant BadArgs& a [[buffer(2)]],
                 uint tid [[thread_position_in_grid]]) {
  if (tid < a.n) {
    out[tid] = x[tid];
  }
}

kernel void write_at(device float* x [[buffer(0)]], constant BadArgs& a [[buffer(1)]],
                     uint tid [[thread_position_in_grid]]) {
  if (tid == 0) {
    x[int(a.n)] = 1.0f;
  }
}

kernel void up_to_limit(device float* x [[buffer(0)]], uint tid [[thread_position_in_grid]]) {
  if (tid < LIMIT) {
    x[tid] = float(LIMIT);
  }
}

kernel void divide(device uint* x [[buffer(0)]], uint tid [[thread_position_in_grid]]) { x[tid] = 100 / x[tid]; }

// out = the float at the address that the table holds.
kernel void follow(const device ulong* table [[buffer(0)]], device float* out [[buffer(1)]],
                   uint tid [[thread_position_in_grid]]) {
  if (tid == 0) {
    out[0] = *(const device float*)table[0];
  }
}

kernel void misaligned(device float* x [[buffer(0)]], uint tid [[thread_position_in_grid]]) {
  if (tid == 0) {
    x[0] = ((device float4*)(x + 1))->x;
  }
}

// Wherever the compiler puts the array, one of the two is misaligned.
kernel void misaligned_threadgroup_memory(device float* x [[buffer(0)]], uint tid [[thread_position_in_grid]]) {
  threadgroup float a[8];
  if (tid == 0) {
    x[0] = ((threadgroup float4*)a)->x + ((threadgroup float4*)(a + 1))->x;
  }
}
