#include "backend/cpu/thread_scratch.h"

#include <memory>
#include <new>

namespace swiftlet {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(float* memory) const { ::operator delete[](memory, kAlignment); }
};

thread_local std::unique_ptr<float[], Free> scratch;
thread_local size_t scratch_count = 0;

}  // namespace

float* thread_scratch(size_t count) {
  if (count > scratch_count) {
    scratch_count = 0;
    scratch.reset();  // before the new one, so that the two never add up
    scratch.reset(static_cast<float*>(::operator new[](count * sizeof(float), kAlignment)));
    scratch_count = count;
  }
  return scratch.get();
}

}  // namespace swiftlet
