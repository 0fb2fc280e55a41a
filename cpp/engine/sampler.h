// From logits to a token.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace swiftlet {

struct SamplingParams {
  int64_t max_tokens = 256;
  float temperature = 1.0f;         // 0: greedy
  float top_p = 1.0f;               // 1: off
  int64_t top_k = 0;                // 0: off
  float min_p = 0.0f;               // 0: off
  float repetition_penalty = 1.0f;  // 1: off; over prompt and answer, as Hugging Face does it
  float presence_penalty = 0.0f;    // over the answer, as OpenAI does it
  float frequency_penalty = 0.0f;   // over the answer
  uint64_t seed = 0;
  int logprobs = -1;  // -1: none; n: of the token and of the n likeliest
  bool ignore_eos = false;
  std::map<int32_t, float> logit_bias{};  // added first
  std::vector<int32_t> stop_token_ids{};
};

struct SampledToken {
  int32_t id = 0;
  // Log-probabilities of the model's own distribution: before penalties, bias and temperature.
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top_logprobs;
};

class Sampler {
 public:
  // `prompt`: for the repetition penalty. Throws ErrorKind::Input for a value outside its range.
  Sampler(const SamplingParams& params, std::span<const int32_t> prompt, int64_t vocab_size);

  // Chooses a token. The steps, in order: bias, penalties, mask, (greedy: the largest; ties: the lower id),
  // temperature, top-k, top-p, min-p, draw. `logits` [vocab] is scratch afterwards. The same seed and logits give the
  // same tokens. `mask`: a bit a token, the lowest of the first word for id 0; ids with 0, or beyond its end, are not
  // chosen. Empty: all may be. Throws ErrorKind::Input if it allows none.
  SampledToken sample(std::span<float> logits, std::span<const uint32_t> mask = {});

  // How many of the largest logits are enough to choose the same token; 0: it takes all of them.
  int candidates() const;
  // Chooses from as many as candidates() says.
  SampledToken sample(const TopLogits& top);

 private:
  int32_t choose(std::span<float> logits);
  int32_t draw();
  void count(int32_t id);
  void adjust(std::span<float> logits) const;

  SamplingParams params_;
  std::mt19937_64 random_;
  std::vector<char> seen_;  // [vocab]: in prompt or answer; empty without a repetition penalty
  std::map<int32_t, int64_t> answer_counts_;
  std::vector<std::pair<float, int32_t>> candidates_;  // (logit, then its weight; id)
};

}  // namespace swiftlet
