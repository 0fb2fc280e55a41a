#include "experts/policy.h"

#include <algorithm>
#include <cmath>

namespace swiftlet {

namespace {

constexpr double kMostHalfLives = 64;  // of one pass: what is older counts nothing beside it
constexpr int kRangeBits = 500;        // the weight of a use may grow by this power of two before all is scaled down

}  // namespace

Policy::Policy(int keys, double half_life)
    : half_life_(half_life), score_(keys, 0.0), last_use_(keys, 0), place_(keys, -1) {}

void Policy::begin_pass(int tokens) {
  weight_ *= std::exp2(std::min(tokens / half_life_, kMostHalfLives));
  if (weight_ > std::ldexp(1.0, kRangeBits)) renormalise();
}

void Policy::use(int key) {
  score_[key] += weight_;
  last_use_[key] = ++uses_;
  if (contains(key)) sift_down(place_[key]);
}

void Policy::insert(int key) {
  heap_.push_back(key);
  place_[key] = static_cast<int32_t>(heap_.size() - 1);
  sift_up(heap_.size() - 1);
}

void Policy::remove(int key) {
  const size_t place = place_[key];
  const int last = heap_.back();
  heap_.pop_back();
  place_[key] = -1;
  if (last == key) return;
  put(place, last);
  sift_up(place);
  sift_down(place_[last]);
}

// Decay makes the older of two equally frequent experts the colder one. Equal scores are left for experts used in the
// same passes only; of those the one just used goes first, since a pass comes back to it last. So a prompt that walks
// over more experts than there are slots keeps a part of them for its next chunk, where the usual order would keep
// none.
bool Policy::colder(int a, int b) const {
  if (score_[a] != score_[b]) return score_[a] < score_[b];
  return last_use_[a] > last_use_[b];
}

void Policy::put(size_t place, int key) {
  heap_[place] = key;
  place_[key] = static_cast<int32_t>(place);
}

void Policy::sift_up(size_t place) {
  const int key = heap_[place];
  while (place > 0) {
    const size_t parent = (place - 1) / 2;
    if (!colder(key, heap_[parent])) break;
    put(place, heap_[parent]);
    place = parent;
  }
  put(place, key);
}

void Policy::sift_down(size_t place) {
  const int key = heap_[place];
  for (;;) {
    size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && colder(heap_[child + 1], heap_[child])) ++child;
    if (!colder(heap_[child], key)) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, key);
}

void Policy::renormalise() {
  for (double& score : score_) score = std::ldexp(score, -kRangeBits);
  weight_ = std::ldexp(weight_, -kRangeBits);
  // Scores too small to be told apart are zero now, and are ordered by their last use.
  for (size_t place = heap_.size() / 2; place-- > 0;) sift_down(place);
}

}  // namespace swiftlet
