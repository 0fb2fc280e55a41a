// The CPU backend apart from its numbers: memory, errors, NaN, choice of instruction set.
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "backend/cpu/blocks.h"
#include "backend/cpu/isa.h"
#include "random_layer.h"
#include "temp_folder.h"
#include "tensors.h"

namespace swiftlet {
namespace {

using namespace test;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST_CASE("top_k: falling values, ties by index, always valid indices") {
  const float values[] = {0.1f, 0.3f, 0.2f, 0.3f, 0.05f, 0.2f};
  int32_t indices[6];
  float largest[6];
  top_k(values, 6, 4, indices, largest);
  CHECK(std::vector<int32_t>(indices, indices + 4) == std::vector<int32_t>{1, 3, 2, 5});
  CHECK(std::vector<float>(largest, largest + 4) == std::vector<float>{0.3f, 0.3f, 0.2f, 0.2f});
  top_k(values, 6, 6, indices, largest);
  CHECK(std::vector<int32_t>(indices, indices + 6) == std::vector<int32_t>{1, 3, 2, 5, 0, 4});

  for (const std::vector<float>& strange :
       {std::vector<float>(6, kNan), {kNan, 1, kNan, 3, 2, 0}, {1, kNan, -kInf, kInf, kInf, kNan}}) {
    top_k(strange.data(), 6, 4, indices, largest);
    std::set<int32_t> chosen(indices, indices + 4);
    CHECK(chosen.size() == 4);
    CHECK(*chosen.begin() >= 0);
    CHECK(*chosen.rbegin() < 6);
  }
}

TEST_CASE("scratch_bytes is what reserve maps") {
  const auto mapped_bytes = [] {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * size_t(sysconf(_SC_PAGESIZE));
  };
  if (!mapped_bytes()) return;  // not Linux
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  const auto backend = make_cpu_backend(small_dims(), 1, "auto");
  size_t last = 0;
  for (int tokens : {1, 31, 32, 128, 129, 2048}) {
    const size_t before = mapped_bytes();
    backend->reserve(tokens);
    const size_t bytes = backend->scratch_bytes(tokens);
    CHECK(mapped_bytes() - before + (last + page - 1) / page * page == (bytes + page - 1) / page * page);
    CHECK(bytes > last);
    last = bytes;
  }
}

TEST_CASE("scratch of the largest chunk is mostly the three streams and one of them packed") {
  ModelConfig c = small_dims();  // the dimensions of Qwen3.5-35B-A3B
  c.hidden_size = 2048;
  c.num_attention_heads = 16;
  c.head_dim = 256;
  c.linear_num_key_heads = 16;
  c.linear_num_value_heads = 32;
  c.linear_key_head_dim = c.linear_value_head_dim = 128;
  c.num_experts = 256;
  c.num_experts_per_tok = 8;
  c.moe_intermediate_size = c.shared_expert_intermediate_size = 512;
  const auto backend = make_cpu_backend(c, 1, "auto");
  const size_t streams = 2048 * (size_t(3) * 2048 * 4 + size_t(packed_bytes(2048)));
  CHECK(backend->scratch_bytes(2048) > streams);
  CHECK(backend->scratch_bytes(2048) < streams + (size_t(20) << 20));
  CHECK(backend->scratch_bytes(1) < size_t(2) << 20);
}

TEST_CASE("buffers are zeroed, page-aligned and only take what is touched") {
  const auto backend = make_cpu_backend(small_dims(), 1, "auto");
  const auto buffer = backend->allocate(10000);
  CHECK(buffer->bytes() == 10000);
  CHECK(reinterpret_cast<uintptr_t>(buffer->host()) % size_t(sysconf(_SC_PAGESIZE)) == 0);
  CHECK(std::all_of(buffer->host(), buffer->host() + 10000, [](std::byte b) { return b == std::byte(0); }));
  CHECK(backend->allocate(0)->bytes() == 0);
  CHECK(lacks(error_of(ErrorKind::Memory, [&] { backend->allocate(SIZE_MAX / 4); }), {"memory"}) == "");
}

TEST_CASE("scratch that the system refuses leaves a backend that refuses chunks") {
  ModelConfig huge = small_dims();
  huge.hidden_size = int64_t(1) << 40;
  const auto backend = make_cpu_backend(huge, 1, "auto");
  CHECK(lacks(error_of(ErrorKind::Memory, [&] { backend->reserve(4096); }), {"memory"}) == "");
  CHECK(lacks(error_of(ErrorKind::Input, [&] { backend->end_moe(1); }), {"room", "0"}) == "");
}

TEST_CASE("bad requests are errors") {
  const RandomLayer layer(small_dims(), 32, 1);
  const auto backend = make_cpu_backend(layer.config, 1, "auto");
  const std::vector<float> input = random_input(8, layer.config.hidden_size, 1);
  const Matrix rows = plain_matrix(input.data(), 8, layer.config.hidden_size);
  const auto error = [](const auto& action) { return error_of(ErrorKind::Input, action); };
  CHECK(lacks(error([&] { backend->embed(rows, 1); }), {"1 tokens", "0"}) == "");  // nothing reserved yet
  CHECK(lacks(error([&] { backend->reserve(0); }), {"0 tokens"}) == "");
  backend->reserve(8);
  CHECK(lacks(error([&] { backend->embed(rows, 9); }), {"9 tokens", "8"}) == "");
  CHECK(lacks(error([&] { backend->embed(rows, 0); }), {"0 tokens"}) == "");
  backend->embed(rows, 8);
  float logits[77 * 8];
  CHECK(lacks(error([&] { backend->logits(layer.head, 7, 2, logits); }), {"9 tokens"}) == "");
  KvCache cache = make_cache(*backend, layer.config, KvType::F16, 16);
  CHECK(lacks(error([&] { backend->attention(layer.attention, cache, 9, 8); }), {"9 to 16", "16 positions"}) == "");
  CHECK(lacks(error([&] { backend->attention(layer.attention, cache, -1, 8); }), {"-1"}) == "");
  ModelConfig huge = small_dims();
  huge.head_dim = 1024;
  CHECK(lacks(error([&] { make_cpu_backend(huge, 1, "auto"); }), {"head_dim 1024", "512"}) == "");
}

TEST_CASE("logits of a part are those of the whole") {
  const RandomLayer layer(small_dims(), 32, 1);
  const int tokens = 200;
  const std::vector<float> input = random_input(tokens, layer.config.hidden_size, 1);
  for (const std::string& isa : cpu_isas()) {
    const auto backend = make_cpu_backend(layer.config, 2, isa);
    backend->reserve(tokens);
    backend->embed(plain_matrix(input.data(), tokens, layer.config.hidden_size), tokens);
    std::vector<float> all(size_t(tokens) * 77), one(77);
    backend->logits(layer.head, 0, tokens, all.data());
    for (int t : {0, 150, 199}) {
      backend->logits(layer.head, t, 1, one.data());
      CHECK(std::equal(one.begin(), one.end(), all.begin() + t * 77));
    }
  }
}

TEST_CASE("a guess leaves everything as it is") {
  const RandomLayer layer(small_dims(), 32, 1), later(small_dims(), 32, 9);
  const std::vector<float> input = random_input(5, layer.config.hidden_size, 1);
  const auto output = [&](bool guess) {
    const auto backend = make_cpu_backend(layer.config, 2, "auto");
    Slots slots(*backend, layer, false);
    backend->reserve(5);
    backend->embed(plain_matrix(input.data(), 5, layer.config.hidden_size), 5);
    backend->route(layer.moe, 0, 5);
    if (guess) backend->guess(later.moe, 5);
    backend->shared_expert(layer.moe, 5);
    if (guess) backend->guess(later.moe, 5);
    run_experts(*backend, slots, 5, 1);
    if (guess) backend->guess(later.moe, 5);
    backend->end_moe(5);
    std::vector<float> x(input.size());
    backend->hidden(x.data(), 5);
    return x;
  };
  CHECK(same_bits(output(true), output(false)));
}

TEST_CASE("NaN and infinity reach the logits of their token, and no other token's before it") {
  for (const std::string& isa : cpu_isas())
    for (const auto& [kv, bad] : {std::pair(KvType::F32, kNan), std::pair(KvType::F16, kInf),
                                  std::pair(KvType::Int8, kNan), std::pair(KvType::Int8, kInf)}) {
      CAPTURE(isa);
      const RandomLayer layer(small_dims(), 4, 1);
      const int64_t hidden = layer.config.hidden_size;
      std::vector<float> input = random_input(40, hidden, 1);
      input[size_t(20 * hidden + 3)] = bad;
      const std::vector<float> logits =
          run_layer(layer, input, {40}, {.isa = isa, .threads = 2, .kv = kv}).at("logits");
      for (int t = 0; t < 40; ++t) {
        const auto row = logits.begin() + t * 77;
        const bool finite = std::all_of(row, row + 77, [](float value) { return std::isfinite(value); });
        CHECK(finite == (t < 20));  // later tokens see it through the states
      }
    }
}

TEST_CASE("NaN anywhere in a row goes through every operation") {
  for (const std::string& isa : cpu_isas()) {
    const CpuOps& ops = ops_for(isa);
    for (int n : {1, 7, 8, 19}) {
      const std::vector<float> ones(size_t(n), 1.0f);
      for (int at = 0; at < n; ++at) {
        CAPTURE(isa);
        CAPTURE(n);
        CAPTURE(at);
        const auto spoiled = [&] {
          std::vector<float> row(ones);
          row[size_t(at)] = kNan;
          return row;
        };
        const auto nan_at = [&](const std::vector<float>& row) { return std::isnan(row[size_t(at)]); };
        std::vector<float> row = spoiled(), other = ones;
        ops.rms_norm(row.data(), ones.data(), n, 1e-6f, row.data());
        CHECK(std::isnan(row[0]));
        ops.softmax((row = spoiled()).data(), n);
        CHECK(std::isnan(row[0]));
        ops.l2_norm((row = spoiled()).data(), n, 1);
        CHECK(std::isnan(row[0]));
        ops.silu((row = spoiled()).data(), n);
        CHECK(nan_at(row));
        ops.silu_mul((row = spoiled()).data(), ones.data(), n);
        CHECK(nan_at(row));
        ops.silu_mul((row = ones).data(), spoiled().data(), n);
        CHECK(nan_at(row));
        ops.sigmoid_mul(other.data(), spoiled().data(), n);
        CHECK(nan_at(other));
        ops.gated_rms_norm((row = ones).data(), ones.data(), spoiled().data(), n, 1e-6f);
        CHECK(nan_at(row));
      }
    }
  }
}

TEST_CASE("exponentials are good to the last bits, from nothing to infinity") {
  for (const std::string& isa : cpu_isas()) {
    const CpuOps& ops = ops_for(isa);
    const auto error = [](float value, double exact) {  // in ulp of the exact value
      return std::abs(double(value) - exact) / std::max(std::abs(exact) * 0x1p-23, 0x1p-149);
    };
    double worst = 0;
    for (float x = -103; x < 87; x += 0.00731f) {
      float value = x, row[] = {x, 0};
      ops.silu(&value, 1);  // x / (1 + exp(-x))
      if (x > -87) worst = std::max(worst, error(value, double(x) / (1 + std::exp(-double(x)))));
      ops.softmax(row, 2);  // exp(x) / (exp(x) + 1)
      if (x < 0) worst = std::max(worst, error(row[0], 1 / (1 + std::exp(-double(x)))));
    }
    CHECK(worst < 3);
    float far[] = {-1000, -200, 200, 1000};
    ops.silu(far, 4);
    CHECK(far[0] == 0);
    CHECK(far[1] == 0);
    CHECK(far[2] == 200);
    CHECK(far[3] == 1000);
    float row[] = {-kInf, 0, -1e30f, 0};
    ops.softmax(row, 4);
    CHECK(std::vector<float>(row, row + 4) == std::vector<float>{0, 0.5f, 0, 0.5f});
  }
}

TEST_CASE("rows of any length do not write past their end, nor depend on what lies there") {
  for (const std::string& isa : cpu_isas())
    for (int n : {1, 3, 4, 5, 8, 12, 16, 31, 33}) {
      const CpuOps& ops = ops_for(isa);
      const std::vector<float> source = random_input(4, n, 1);
      const auto run = [&](float beyond) {
        std::vector<float> rows(source);
        rows.insert(rows.end(), 32, beyond);
        float *a = rows.data(), *b = a + n, *c = b + n, *d = c + n;
        ops.silu(d, n);
        ops.softmax(d, n);
        ops.rms_norm(d, a, n, 1e-6f, d);
        ops.l2_norm(d, n, 1);
        ops.gated_rms_norm(d, b, c, n, 1e-6f);
        ops.silu_mul(d, b, n);
        ops.sigmoid_mul(d, c, n);
        for (int i = 4 * n; i < 4 * n + 32; ++i) CHECK(same_bits({rows[size_t(i)]}, {beyond}));
        rows.resize(size_t(4 * n));
        return rows;
      };
      CHECK(same_bits(run(0), run(kNan)));
    }
}

TEST_CASE("instruction sets by name") {
  CHECK(cpu_isas().back() == "reference");
  for (const std::string& isa : cpu_isas()) {
    CHECK(ops_for(isa).name == isa);
    CHECK(make_cpu_backend(small_dims(), 3, isa)->description() == "cpu (" + isa + ", 3 threads)");
  }
  CHECK(ops_for("auto").name == cpu_isas().front());
  CHECK(make_cpu_backend(small_dims(), 1, "reference")->description() == "cpu (reference, 1 thread)");
  CHECK(lacks(error_of(ErrorKind::Input, [] { make_cpu_backend(small_dims(), 1, "mmx"); }), {"mmx", "reference"}) ==
        "");
}

}  // namespace
}  // namespace swiftlet
