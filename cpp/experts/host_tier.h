// Host memory for experts whose slots lie on a device: what reads land in before it is copied there and, if wanted, a
// second place for those that the device has no slot for.
//
// A copy is never written over while it may be the only one and a worse one is there: first go free slots, then copies
// of experts that the device holds as well, the longest there first, then the coldest. No locks, no I/O.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <vector>

#include "experts/policy.h"

namespace swiftlet {

class HostTier {
 public:
  // `keeps`: copies stay; else slots are for reads in flight only.
  HostTier(int keys, double half_life, std::shared_ptr<std::byte> memory, size_t slots, size_t slot_bytes, bool keeps);
  HostTier(const HostTier&) = delete;
  // Each read in flight can hold two: of the expert that comes, and of the one that leaves the device for it.
  static size_t least_slots(int reads_in_flight) { return 2 * static_cast<size_t>(reads_in_flight); }

  Policy policy;  // as the device's, of copies that the device does not hold

  // The copy of an expert, which stays until it comes back by keep(); or null.
  std::byte* borrow(int key);
  // A slot to write to, which comes back by keep() or give(). There is one while no more than the least are taken.
  std::byte* take();
  void give(std::byte* slot) { free_.push_back(slot); }
  // The slot holds a copy of that expert, and the device does too or not.
  void keep(int key, std::byte* slot, bool on_device);
  // The expert has left the device.
  void left_device(int key);
  // Should a copy be made of an expert that leaves the device?
  bool wants(int key) const;

 private:
  bool on_loan(int key) const;  // borrowed, and not come back yet
  void place(int key, bool on_device);
  void displace(int key);

  std::shared_ptr<std::byte> memory_;
  bool keeps_;
  std::vector<std::byte*> free_;
  std::vector<std::byte*> copies_;                 // by key, or null
  std::list<int> doubles_;                         // keys that the device holds too, the longest there first
  std::vector<std::list<int>::iterator> doubled_;  // by key: its place there, or its end
};

}  // namespace swiftlet
