// Which expert to give up when a slot is wanted: the least frequently used, with decay.
//
// A key is one expert of one layer. Frequencies are kept for all keys, in memory or not; the keys whose slots may be
// taken are in a heap. No I/O, no locks: a simulator can drive it alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace swiftlet {

class Policy {
 public:
  // `half_life`: tokens after which a use counts half.
  Policy(int keys, double half_life);

  // A pass is one walk over the layers, with a token or with a chunk of a prompt. To be called before its first use().
  // The clock of the decay moves by the chunk's tokens: else what an answer used would outlive the next long prompt.
  void begin_pass(int tokens);
  // Counts a use in this pass. An expert that a chunk needs counts once, however many of its tokens chose it.
  void use(int key);

  // The keys that may be evicted, O(log n) each.
  void insert(int key);
  void remove(int key);
  bool contains(int key) const { return place_[key] >= 0; }
  bool empty() const { return heap_.empty(); }
  int coldest() const { return heap_.front(); }  // of a heap that is not empty
  bool colder(int a, int b) const;               // would a be evicted before b?

  // May a read that is only a guess take the slot of `victim`? Not if the victim would still be the hotter one once the
  // guess had come true.
  bool guess_may_replace(int guess, int victim) const { return score_[victim] <= score_[guess] + weight_; }

 private:
  void put(size_t place, int key);
  void sift_up(size_t place);
  void sift_down(size_t place);
  void renormalise();

  double half_life_;
  // Instead of ageing all scores at each pass, the weight of a use grows: only ratios matter.
  double weight_ = 1;  // of a use in this pass
  uint64_t uses_ = 0;

  std::vector<double> score_;       // by key
  std::vector<uint64_t> last_use_;  // by key, in uses
  std::vector<int32_t> place_;      // by key: its place in the heap, or -1
  std::vector<int32_t> heap_;       // keys, the coldest first
};

}  // namespace swiftlet
