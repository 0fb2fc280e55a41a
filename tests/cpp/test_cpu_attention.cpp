// Attention over more than one block of positions, against the formula in double precision.
#include <doctest/doctest.h>

#include <numeric>

#include "random_layer.h"
#include "tensors.h"

namespace swiftlet {
namespace {

using namespace test;
using Row = std::vector<double>;

Row linear(const Matrix& matrix, const Row& x) {
  Row y;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    const float* row = reinterpret_cast<const float*>(matrix.weight()) + r * matrix.cols;
    y.push_back(std::inner_product(x.begin(), x.end(), row, matrix.bias ? double(matrix.bias[r]) : 0.0));
  }
  return y;
}

void normalize(Row& row, size_t begin, size_t n, const float* weight) {
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += row[begin + i] * row[begin + i];
  for (size_t i = 0; i < n; ++i) row[begin + i] *= double(weight[i]) / std::sqrt(squares / double(n) + 1e-6);
}

void rotate(Row& row, size_t begin, int dims, double theta, int position) {
  for (int j = 0; j < dims / 2; ++j) {
    const double angle = position * std::pow(theta, -2.0 * j / dims);
    double &a = row[begin + size_t(j)], &b = row[begin + size_t(j + dims / 2)];
    const double turned = a * std::cos(angle) - b * std::sin(angle);
    b = a * std::sin(angle) + b * std::cos(angle);
    a = turned;
  }
}

// x + attention(rms_norm(x)) of all tokens.
std::vector<float> attend(const RandomLayer& layer, const std::vector<float>& input) {
  const ModelConfig& c = layer.config;
  const AttentionWeights& w = layer.attention;
  const size_t hidden = size_t(c.hidden_size), dim = size_t(c.head_dim);
  std::vector<Row> keys, values;
  std::vector<float> result;
  for (int t = 0; t < int(input.size() / hidden); ++t) {
    Row x(input.begin() + t * int64_t(hidden), input.begin() + (t + 1) * int64_t(hidden));
    normalize(x, 0, hidden, w.input_norm);
    Row q = linear(w.q_proj, x), out;
    keys.push_back(linear(w.k_proj, x));
    values.push_back(linear(w.v_proj, x));
    for (int h = 0; h < c.num_key_value_heads; ++h) {
      normalize(keys.back(), size_t(h) * dim, dim, w.k_norm);
      rotate(keys.back(), size_t(h) * dim, c.rotary_dim, c.rope_theta, t);
    }
    for (int h = 0; h < c.num_attention_heads; ++h) {
      const size_t query = size_t(h) * 2 * dim;
      const size_t kv = size_t(h / (c.num_attention_heads / c.num_key_value_heads)) * dim;
      normalize(q, query, dim, w.q_norm);
      rotate(q, query, c.rotary_dim, c.rope_theta, t);
      Row scores;
      for (const Row& key : keys)
        scores.push_back(std::inner_product(key.begin() + int64_t(kv), key.begin() + int64_t(kv + dim),
                                            q.begin() + int64_t(query), 0.0) /
                         std::sqrt(double(dim)));
      const double top = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - top);
      for (size_t i = 0; i < dim; ++i) {
        double value = 0;
        for (size_t p = 0; p < scores.size(); ++p) value += scores[p] / sum * values[p][kv + i];
        out.push_back(value / (1 + std::exp(-q[query + dim + i])));
      }
    }
    const Row added = linear(w.o_proj, out);
    for (size_t i = 0; i < hidden; ++i) result.push_back(float(input[size_t(t) * hidden + i] + added[i]));
  }
  return result;
}

TEST_CASE("attention over several blocks of positions, with scores near each other and far apart") {
  for (float sharpness : {1.0f, 40.0f}) {  // scores of up to 10 and of up to 450: beyond what exp can take
    RandomLayer layer(small_dims(), 32, 1);
    layer.attention.q_norm = layer.vector(layer.config.head_dim, sharpness, 0.1f);
    const std::vector<float> input = random_input(400, layer.config.hidden_size, 2);
    const std::vector<float> expected = attend(layer, input);
    for (const std::string& isa : cpu_isas()) {
      CAPTURE(isa);
      CAPTURE(sharpness);
      const auto backend = make_cpu_backend(layer.config, 2, isa);
      backend->reserve(400);
      KvCache cache = make_cache(*backend, layer.config, KvType::F32, 400);
      backend->embed(plain_matrix(input.data(), 400, layer.config.hidden_size), 400);
      backend->attention(layer.attention, cache, 0, 400);
      std::vector<float> actual(input.size());
      backend->hidden(actual.data(), 400);
      CHECK(relative_error(actual, expected) < (sharpness > 1 ? 2e-4 : 1e-5));
    }
  }
}

}  // namespace
}  // namespace swiftlet
