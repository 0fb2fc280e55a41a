#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace swiftlet {
namespace {

void check(const SamplingParams& p, int64_t vocab_size) {
  const auto require = [](bool ok, const char* name, auto value, const char* range) {
    if (!ok) fail(ErrorKind::Input, name, " is ", value, ", but must be ", range);
  };
  require(p.max_tokens >= 1, "max_tokens", p.max_tokens, "1 or more");
  require(p.temperature >= 0 && std::isfinite(p.temperature), "temperature", p.temperature, "0 (greedy) or above");
  require(p.top_p > 0 && p.top_p <= 1, "top_p", p.top_p, "above 0 and at most 1");
  require(p.top_k >= 0, "top_k", p.top_k, "0 (off) or more");
  require(p.min_p >= 0 && p.min_p <= 1, "min_p", p.min_p, "between 0 and 1");
  require(p.repetition_penalty >= 0.01f && p.repetition_penalty <= 100, "repetition_penalty", p.repetition_penalty,
          "between 0.01 and 100");
  require(std::abs(p.presence_penalty) <= 100, "presence_penalty", p.presence_penalty, "between -100 and 100");
  require(std::abs(p.frequency_penalty) <= 100, "frequency_penalty", p.frequency_penalty, "between -100 and 100");
  require(p.logprobs >= -1 && p.logprobs <= vocab_size, "logprobs", p.logprobs, "between 0 and the vocabulary's size");
  for (const auto& [id, bias] : p.logit_bias) {
    require(id >= 0 && id < vocab_size, "logit_bias for token", id, "for a token of the vocabulary");
    require(bias >= -100 && bias <= 100, "logit_bias", bias, "between -100 and 100");
  }
}

// log(sum(exp(logits))), in double so that a large vocabulary does not wear it out.
double log_sum_exp(std::span<const float> logits) {
  const float max = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float l : logits) sum += std::exp(double(l) - max);
  return max + std::log(sum);
}

// Larger first; ties: the lower id.
bool better(const std::pair<float, int32_t>& a, const std::pair<float, int32_t>& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

// Heap order that pops the best first.
bool heap_less(const std::pair<float, int32_t>& a, const std::pair<float, int32_t>& b) { return better(b, a); }

// Logits of tokens that the mask leaves out become -inf.
void apply_mask(std::span<float> logits, std::span<const uint32_t> mask) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  bool any = false;
  for (size_t begin = 0; begin < logits.size(); begin += 32) {
    const auto block = logits.subspan(begin, std::min<size_t>(32, logits.size() - begin));
    const uint32_t word = begin / 32 < mask.size() ? mask[begin / 32] : 0;
    if (word == 0) {
      std::ranges::fill(block, kNever);
      continue;
    }
    for (size_t i = 0; i < block.size(); i++) {
      if (word >> i & 1)
        any = true;
      else
        block[i] = kNever;
    }
  }
  if (!any) fail(ErrorKind::Input, "the mask allows no token at all");
}

}  // namespace

Sampler::Sampler(const SamplingParams& params, std::span<const int32_t> prompt, int64_t vocab_size)
    : params_(params), random_(params.seed) {
  check(params, vocab_size);
  if (params.repetition_penalty == 1.0f) return;
  seen_.assign(vocab_size, 0);
  for (const int32_t id : prompt) seen_[id] = 1;
}

SampledToken Sampler::sample(std::span<float> logits, std::span<const uint32_t> mask) {
  SampledToken token;
  double normalizer = 0;
  if (params_.logprobs >= 0) {
    normalizer = log_sum_exp(logits);
    std::vector<std::pair<float, int32_t>> top(logits.size());
    for (size_t i = 0; i < logits.size(); i++) top[i] = {logits[i], int32_t(i)};
    std::partial_sort(top.begin(), top.begin() + params_.logprobs, top.end(), better);
    for (int i = 0; i < params_.logprobs; i++)
      token.top_logprobs.emplace_back(top[i].second, float(top[i].first - normalizer));
  }
  const std::vector<float> raw =
      params_.logprobs >= 0 ? std::vector<float>(logits.begin(), logits.end()) : std::vector<float>{};

  adjust(logits);
  if (!mask.empty()) apply_mask(logits, mask);
  token.id = choose(logits);
  token.logprob = raw.empty() ? std::nanf("") : float(raw[token.id] - normalizer);

  count(token.id);
  return token;
}

void Sampler::count(int32_t id) {
  if (!seen_.empty()) seen_[id] = 1;
  answer_counts_[id]++;
}

void Sampler::adjust(std::span<float> logits) const {
  for (const auto& [id, bias] : params_.logit_bias) logits[id] += bias;
  for (size_t i = 0; i < seen_.size(); i++)
    if (seen_[i])
      logits[i] = logits[i] > 0 ? logits[i] / params_.repetition_penalty : logits[i] * params_.repetition_penalty;
  if (params_.presence_penalty != 0 || params_.frequency_penalty != 0)
    for (const auto& [id, count] : answer_counts_)
      logits[id] -= params_.presence_penalty + params_.frequency_penalty * float(count);
}

int32_t Sampler::choose(std::span<float> logits) {
  if (params_.temperature == 0) return int32_t(std::ranges::max_element(logits) - logits.begin());
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); i++)
    if (std::isfinite(logits[i])) candidates_.emplace_back(logits[i], int32_t(i));
  if (params_.top_k > 0) {
    const auto keep = std::min<size_t>(params_.top_k, candidates_.size());
    std::partial_sort(candidates_.begin(), candidates_.begin() + std::ptrdiff_t(keep), candidates_.end(), better);
    candidates_.resize(keep);
  }
  return draw();
}

int Sampler::candidates() const {
  const bool adjusted =
      !params_.logit_bias.empty() || !seen_.empty() || params_.presence_penalty != 0 || params_.frequency_penalty != 0;
  const int64_t deciding = params_.temperature == 0 ? 1 : params_.top_k;
  if (adjusted || deciding == 0 || deciding > std::numeric_limits<int>::max()) return 0;
  return std::max(int(deciding), params_.logprobs);
}

SampledToken Sampler::sample(const TopLogits& top) {
  SampledToken token;
  for (int i = 0; i < std::min(params_.logprobs, int(top.best.size())); i++)
    token.top_logprobs.emplace_back(top.best[size_t(i)].second, top.best[size_t(i)].first - top.log_sum_exp);
  if (params_.temperature == 0) {
    token.id = top.best.front().second;
  } else {
    candidates_.assign(top.best.begin(), top.best.begin() + std::min<int64_t>(params_.top_k, int64_t(top.best.size())));
    token.id = draw();
  }
  const auto chosen = std::ranges::find(top.best, token.id, &std::pair<float, int32_t>::second);
  token.logprob = params_.logprobs >= 0 ? chosen->first - top.log_sum_exp : std::nanf("");
  count(token.id);
  return token;
}

// Draws from the candidates, which hold logits.
int32_t Sampler::draw() {
  const float max = std::ranges::max_element(candidates_)->first;
  for (auto& c : candidates_) c.first = std::exp((c.first - max) / params_.temperature);
  double total = 0;
  for (const auto& c : candidates_) total += c.first;

  if (params_.top_p < 1 || params_.min_p > 0) {
    // Pops candidates until they hold top_p of the mass, or are below min_p of the best.
    std::make_heap(candidates_.begin(), candidates_.end(), heap_less);
    auto end = candidates_.end();
    double mass = 0;
    while (end != candidates_.begin() && mass < double(params_.top_p) * total) {
      const float weight = candidates_.front().first;
      if (end != candidates_.end() && weight < params_.min_p) break;  // the best has weight 1
      mass += weight;
      std::pop_heap(candidates_.begin(), end, heap_less);
      --end;
    }
    candidates_.erase(candidates_.begin(), end);
    total = mass;
  }

  // A uniform number in [0, 1) from the top 53 bits: the same on every platform.
  double left = double(random_() >> 11) * 0x1p-53 * total;
  for (const auto& c : candidates_) {
    left -= c.first;
    if (left < 0) return c.second;
  }
  return std::ranges::min_element(candidates_, better)->second;  // rounding ate the last of the mass
}

}  // namespace swiftlet
