// Decides whether look-ahead prefetch pays, by trying both ways.
#pragma once

namespace swiftlet {

// Off: never guess. Auto: while it pays. On: always.
enum class Prefetch { Off, Auto, On };

// A trial decodes blocks of tokens by turns with and without guesses, so that drift of machine and text falls on both.
// The winner stays until the next trial. Only clear wins count: guessed reads cost power and disk time.
class PrefetchMeter {
 public:
  static constexpr int kBlock = 8;           // tokens of one block
  static constexpr int kBlocks = 6;          // of one trial: three each way
  static constexpr int kHold = 400;          // tokens from the end of a trial to the next
  static constexpr double kLeastGain = .02;  // of the time per token

  explicit PrefetchMeter(Prefetch mode) : mode_(mode), on_(mode == Prefetch::On) {}

  bool on() const { return on_ && fetched_; }

  // A token was decoded in `seconds`; `fetched`: some of its experts were not resident. After a token that had all of
  // them there is nothing to win: the next one is decoded without guesses, and does not count for a trial.
  void decoded(double seconds, bool fetched) {
    if (mode_ != Prefetch::Auto) return;
    const bool counts = fetched && fetched_;
    fetched_ = fetched;
    if (!counts) return;
    if (token_ < kBlock * kBlocks) {
      // The first token of a block still profits or suffers from the block before.
      if (token_ % kBlock) (on_ ? with_ : without_) += seconds;
      token_++;
      on_ = token_ / kBlock % 2 == 1;
      if (token_ == kBlock * kBlocks) on_ = with_ < without_ * (1 - kLeastGain);
    } else if (++token_ == kBlock * kBlocks + kHold) {
      token_ = 0;
      with_ = without_ = 0;
      on_ = false;
    }
  }

 private:
  Prefetch mode_;
  bool on_;
  bool fetched_ = true;  // the last token
  int token_ = 0;        // since the trial began
  double with_ = 0, without_ = 0;
};

}  // namespace swiftlet
