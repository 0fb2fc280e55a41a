#include "experts/host_tier.h"

#include <utility>

namespace swiftlet {

HostTier::HostTier(int keys, double half_life, std::shared_ptr<std::byte> memory, size_t slots, size_t slot_bytes,
                   bool keeps)
    : policy(keys, half_life),
      memory_(std::move(memory)),
      keeps_(keeps),
      copies_(keys, nullptr),
      doubled_(keys, doubles_.end()) {
  for (size_t i = slots; i-- > 0;) free_.push_back(memory_.get() + i * slot_bytes);
}

std::byte* HostTier::borrow(int key) {
  if (copies_[key]) displace(key);
  return copies_[key];
}

std::byte* HostTier::take() {
  if (!free_.empty()) {
    std::byte* slot = free_.back();
    free_.pop_back();
    return slot;
  }
  if (doubles_.empty() && policy.empty()) return nullptr;
  const int key = doubles_.empty() ? policy.coldest() : doubles_.front();
  displace(key);
  return std::exchange(copies_[key], nullptr);
}

void HostTier::keep(int key, std::byte* slot, bool on_device) {
  if (!keeps_) return give(slot);
  // An expert that was asked for while it left the device comes from disk: then there are two. The first may be on loan
  // by now: then its place is not to be taken before it comes back.
  if (copies_[key] && copies_[key] != slot) {
    give(slot);
    if (on_loan(key)) return;
    displace(key);
  } else {
    copies_[key] = slot;
  }
  place(key, on_device);
}

void HostTier::left_device(int key) {
  if (doubled_[key] == doubles_.end()) return;
  displace(key);
  place(key, false);
}

bool HostTier::wants(int key) const {
  if (!keeps_ || copies_[key]) return false;
  return !free_.empty() || !doubles_.empty() || (!policy.empty() && policy.colder(policy.coldest(), key));
}

bool HostTier::on_loan(int key) const {
  return copies_[key] && doubled_[key] == doubles_.end() && !policy.contains(key);
}

void HostTier::place(int key, bool on_device) {
  if (on_device)
    doubled_[key] = doubles_.insert(doubles_.end(), key);
  else
    policy.insert(key);
}

void HostTier::displace(int key) {
  if (doubled_[key] != doubles_.end())
    doubles_.erase(std::exchange(doubled_[key], doubles_.end()));
  else if (policy.contains(key))
    policy.remove(key);
}

}  // namespace swiftlet
