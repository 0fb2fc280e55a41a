#include <algorithm>
#include <cmath>
#include <string>

#include "backend/cpu/cpu_ops.h"
#include "device_under_test.h"
#include "metal/kernel_args.h"

using namespace swiftlet;
using namespace swiftlet::gpu;
using namespace swiftlet::gpu::test;

namespace {

struct Dims {
  uint32_t key_heads, value_heads, key_dim, value_dim, kernel = 4;
  uint32_t keys() const { return key_heads * key_dim; }
  uint32_t values() const { return value_heads * value_dim; }
  uint32_t channels() const { return 2 * keys() + values(); }
  uint32_t z() const { return channels(); }
  uint32_t b() const { return z() + values(); }
  uint32_t a() const { return b() + value_heads; }
  uint32_t stride() const { return a() + value_heads + 1; }  // something else follows
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The convolution and what it takes with it, for the tokens of one chunk.
struct Prepared {
  std::vector<float> qkv, decay, beta, past;
};

struct Convolution {
  Dims d;
  std::vector<float> conv1d, A_log, dt_bias;

  explicit Convolution(const Dims& dims) : d(dims) {
    conv1d = random_floats(size_t(d.channels()) * d.kernel, 11);
    A_log = random_floats(d.value_heads, 12);
    dt_bias = random_floats(d.value_heads, 13);
  }

  // Projections of `tokens` tokens, and the inputs of the convolution before them.
  Prepared run_on(Device& device, const std::vector<float>& in, const std::vector<float>& past) const {
    const uint32_t tokens = uint32_t(in.size()) / d.stride();
    const auto floats = [&](size_t n) {
      return device.allocate(std::max<size_t>(n, 1) * sizeof(float), Placement::Private);
    };
    const auto in_memory = upload(device, in), past_memory = floats(past.size()), conv = upload(device, conv1d),
               log = upload(device, A_log), bias = upload(device, dt_bias), qkv = floats(size_t(tokens) * d.channels()),
               decay = floats(size_t(tokens) * d.value_heads), beta = floats(size_t(tokens) * d.value_heads);
    device.write(*past_memory, 0, past.data(), past.size() * sizeof(float));
    run(device, {"delta_net", "delta_prepare"}, {},
        {{in_memory.get()},
         {past_memory.get(), 0, true},
         {conv.get()},
         {log.get()},
         {bias.get()},
         {qkv.get(), 0, true},
         {decay.get(), 0, true},
         {beta.get(), 0, true}},
        DeltaPrepareArgs{d.key_heads, d.value_heads, d.key_dim, d.value_dim, d.kernel, tokens, d.stride(), d.b(),
                         d.a()},
        {2 * d.key_heads + d.value_heads, tokens}, 32);
    if (tokens > 1 && d.kernel > 1)
      run(device, {"delta_net", "conv_save"}, {}, {{in_memory.get()}, {past_memory.get(), 0, true}},
          ConvSaveArgs{d.channels(), d.kernel, tokens, d.stride()}, {(d.channels() + 63) / 64}, 64);
    Prepared p{download<float>(device, *qkv), download<float>(device, *decay), download<float>(device, *beta),
               download<float>(device, *past_memory)};
    p.past.resize(past.size());
    return p;
  }
};

// The largest |a - b|, relative to max(1, max |b|); NaN counts as infinite.
double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 1, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double(b[i])));
    const double d = std::abs(double(a[i]) - double(b[i]));
    difference = std::isnan(d) ? INFINITY : std::max(difference, d);
  }
  return difference / largest;
}

std::vector<float> joined(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<float> rows_of(const std::vector<float>& rows, size_t stride, size_t first, size_t count) {
  return {rows.begin() + int64_t(first * stride), rows.begin() + int64_t((first + count) * stride)};
}

// delta_rule over what delta_prepare left, and the gated norm of its result.
struct Rule {
  Dims d;
  std::vector<float> qkv, decay, beta, projected, weight, state;
  uint32_t tokens;

  Rule(const Dims& dims, uint32_t token_count) : d(dims), tokens(token_count) {
    qkv = random_floats(size_t(tokens) * d.channels(), 21);
    // Keys and queries of length 1, as delta_prepare makes them: longer ones make the state grow without bound.
    for (uint32_t t = 0; t < tokens; ++t)
      for (uint32_t h = 0; h < 2 * d.key_heads; ++h) {
        float* row = qkv.data() + size_t(t) * d.channels() + h * d.key_dim;
        float squares = 0;
        for (uint32_t i = 0; i < d.key_dim; ++i) squares += row[i] * row[i];
        for (uint32_t i = 0; i < d.key_dim; ++i) row[i] /= std::sqrt(squares);
      }
    decay = random_floats(size_t(tokens) * d.value_heads, 22);
    beta = random_floats(size_t(tokens) * d.value_heads, 23);
    for (float& v : decay) v = float(sigmoid(v + 1));
    for (float& v : beta) v = float(sigmoid(v));
    projected = random_floats(size_t(tokens) * d.stride(), 24);
    weight = random_floats(d.value_dim, 25);
    state = random_floats(size_t(d.values()) * d.key_dim, 26);
  }

  Rule some(uint32_t first, uint32_t count) const {
    Rule r = *this;
    r.tokens = count;
    r.qkv = rows_of(qkv, d.channels(), first, count);
    r.decay = rows_of(decay, d.value_heads, first, count);
    r.beta = rows_of(beta, d.value_heads, first, count);
    r.projected = rows_of(projected, d.stride(), first, count);
    return r;
  }

  // Moves `state` on. [tokens, value heads, value_dim]
  std::vector<float> run_on(Device& device, bool whole_heads, uint32_t threads) {
    const char* kernel = d.key_dim <= 32    ? "delta_rule_32"
                         : d.key_dim <= 64  ? "delta_rule_64"
                         : d.key_dim <= 128 ? "delta_rule_128"
                                            : "delta_rule_256";
    const auto state_memory = upload(device, state), qkv_memory = upload(device, qkv),
               decay_memory = upload(device, decay), beta_memory = upload(device, beta),
               projected_memory = upload(device, projected), weight_memory = upload(device, weight),
               out = upload(device, std::vector<float>(size_t(tokens) * d.values(), NAN));
    const DeltaRuleArgs args{d.key_heads, d.value_heads, d.key_dim,   d.value_dim, tokens,
                             d.stride(),  d.z(),         whole_heads, 1e-6f};
    const uint32_t rows = threads / 32 * 4;
    run(device, {"delta_net", kernel}, {},
        {{state_memory.get(), 0, true},
         {qkv_memory.get()},
         {decay_memory.get()},
         {beta_memory.get()},
         {projected_memory.get()},
         {weight_memory.get()},
         {out.get(), 0, true}},
        args, {whole_heads ? 1 : (d.value_dim + rows - 1) / rows, d.value_heads}, threads);
    if (!whole_heads)
      run(device, {"delta_net", "gated_norm"}, {},
          {{out.get(), 0, true}, {projected_memory.get()}, {weight_memory.get()}}, args, {d.value_heads, tokens}, 32);
    state = download<float>(device, *state_memory);
    return download<float>(device, *out);
  }

  // The same by the CPU's plain loops.
  std::vector<float> run_on_cpu() {
    std::vector<float> out(size_t(tokens) * d.values());
    for (uint32_t h = 0; h < d.value_heads; ++h) {
      const uint32_t key_head = h / (d.value_heads / d.key_heads);
      reference_ops.delta_rule({.state = state.data() + size_t(h) * d.value_dim * d.key_dim,
                                .value_dim = d.value_dim,
                                .key_dim = d.key_dim,
                                .tokens = int(tokens),
                                .q = qkv.data() + key_head * d.key_dim,
                                .k = qkv.data() + d.keys() + key_head * d.key_dim,
                                .v = qkv.data() + 2 * d.keys() + h * d.value_dim,
                                .stride = d.channels(),
                                .decay = decay.data() + h,
                                .beta = beta.data() + h,
                                .gate_stride = d.value_heads,
                                .out = out.data() + h * d.value_dim,
                                .out_stride = d.values()});
      for (uint32_t t = 0; t < tokens; ++t)
        reference_ops.gated_rms_norm(out.data() + size_t(t) * d.values() + h * d.value_dim, weight.data(),
                                     projected.data() + size_t(t) * d.stride() + d.z() + h * d.value_dim, d.value_dim,
                                     1e-6f);
    }
    return out;
  }
};

}  // namespace

TEST_CASE("delta_prepare: convolution, silu, norms of queries and keys, decay and beta") {
  on_devices([](Device& device) {
    for (const Dims& d : {Dims{2, 4, 32, 32, 4}, Dims{1, 3, 20, 7, 3}, Dims{1, 1, 128, 65, 2}, Dims{1, 2, 48, 33, 1}})
      for (const uint32_t tokens : {1, 2, 5}) {
        CAPTURE(d.kernel);
        CAPTURE(tokens);
        const Convolution convolution(d);
        const std::vector<float> past = random_floats(size_t(d.kernel - 1) * d.channels(), 14);
        std::vector<float> in = random_floats(size_t(tokens) * d.stride(), 15);
        in[d.a()] = 30;  // softplus(x) = x
        const Prepared p = convolution.run_on(device, in, past);
        for (uint32_t t = 0; t < tokens; ++t) {
          std::vector<double> row(d.channels());
          for (uint32_t c = 0; c < d.channels(); ++c) {
            double sum = 0;
            for (uint32_t j = 0; j < d.kernel; ++j) {
              const uint32_t at = t + j;  // of past, then in
              const double v =
                  at < d.kernel - 1 ? past[at * d.channels() + c] : in[(at - (d.kernel - 1)) * d.stride() + c];
              sum += v * double(convolution.conv1d[c * d.kernel + j]);
            }
            row[c] = sum * sigmoid(sum);
          }
          for (uint32_t h = 0; h < 2 * d.key_heads; ++h) {
            double squares = 0;
            for (uint32_t i = 0; i < d.key_dim; ++i) squares += row[h * d.key_dim + i] * row[h * d.key_dim + i];
            const double scale = 1 / std::sqrt(squares + 1e-6) / (h < d.key_heads ? std::sqrt(double(d.key_dim)) : 1);
            for (uint32_t i = 0; i < d.key_dim; ++i) row[h * d.key_dim + i] *= scale;
          }
          for (uint32_t c = 0; c < d.channels(); ++c)
            CHECK(std::abs(p.qkv[size_t(t) * d.channels() + c] - row[c]) <= 2e-6 * std::max(1.0, std::abs(row[c])));
          for (uint32_t h = 0; h < d.value_heads; ++h) {
            const float* gates = in.data() + size_t(t) * d.stride();
            const double x = double(gates[d.a() + h]) + double(convolution.dt_bias[h]);
            const double decay = std::exp(-std::exp(double(convolution.A_log[h])) * std::log1p(std::exp(x)));
            CHECK(std::abs(p.decay[t * d.value_heads + h] - decay) <= 1e-6);
            CHECK(std::abs(p.beta[t * d.value_heads + h] - sigmoid(gates[d.b() + h])) <= 1e-6);
          }
        }
      }
  });
}

TEST_CASE("delta_prepare: a decay near 1 keeps its distance from 1") {
  on_devices([](Device& device) {
    const Dims d{1, 1, 32, 32};
    Convolution convolution(d);
    convolution.A_log = {0};
    convolution.dt_bias = {-12};  // softplus(-12) = 6.1e-6, which 1 + exp(-12) in f32 knows to 1%
    std::vector<float> in(d.stride());
    const Prepared p = convolution.run_on(device, in, std::vector<float>(size_t(3) * d.channels()));
    CHECK(std::abs((1 - double(p.decay[0])) / 6.1441e-6 - 1) < 0.01);  // 1 - decay is a multiple of 6e-8
  });
}

TEST_CASE("delta_prepare and conv_save: tokens one by one, in pairs or together leave the same bits") {
  on_devices([](Device& device) {
    for (const uint32_t kernel : {1, 2, 3, 4, 5}) {
      CAPTURE(kernel);
      const Dims d{1, 2, 36, 10, kernel};
      const Convolution convolution(d);
      const uint32_t tokens = 7;
      const std::vector<float> in = random_floats(size_t(tokens) * d.stride(), 16),
                               past = random_floats(size_t(kernel - 1) * d.channels(), 17);
      const Prepared all = convolution.run_on(device, in, past);
      for (uint32_t j = 0; j + 1 < kernel; ++j)
        CHECK(std::equal(all.past.begin() + j * d.channels(), all.past.begin() + (j + 1) * d.channels(),
                         in.begin() + (tokens - (kernel - 1) + j) * d.stride()));
      for (const uint32_t step : {1, 2, 3}) {
        CAPTURE(step);
        Prepared parts{{}, {}, {}, past};
        for (uint32_t first = 0; first < tokens; first += step) {
          const Prepared p =
              convolution.run_on(device, rows_of(in, d.stride(), first, std::min(step, tokens - first)), parts.past);
          parts = {joined(parts.qkv, p.qkv), joined(parts.decay, p.decay), joined(parts.beta, p.beta), p.past};
        }
        CHECK(parts.qkv == all.qkv);
        CHECK(parts.decay == all.decay);
        CHECK(parts.beta == all.beta);
        CHECK(parts.past == all.past);
      }
    }
  });
}

TEST_CASE("delta_rule: as the CPU's; whole heads and parts of heads, together and one by one, give the same bits") {
  on_devices([](Device& device) {
    double worst = 0;
    for (const Dims& d : {Dims{1, 1, 32, 32}, Dims{2, 4, 64, 33}, Dims{1, 3, 48, 7}, Dims{1, 2, 128, 128},
                          Dims{1, 1, 100, 130}, Dims{1, 1, 256, 18}, Dims{2, 2, 20, 1}}) {
      CAPTURE(d.key_dim);
      CAPTURE(d.value_dim);
      const uint32_t tokens = 5;
      const Rule given(d, tokens);
      Rule cpu = given, whole = given, parts = given, steps = given;
      const std::vector<float> expected = cpu.run_on_cpu(), out = whole.run_on(device, true, 128);
      const double error = std::max(relative_error(out, expected), relative_error(whole.state, cpu.state));
      CHECK(error < 3e-6);
      worst = std::max(worst, error);
      CHECK(parts.run_on(device, false, 64) == out);
      CHECK(parts.state == whole.state);
      std::vector<float> by_steps;
      for (uint32_t first = 0; first < tokens;) {
        const uint32_t count = first == 1 ? 2 : 1;
        Rule step = steps.some(first, count);
        step.state = steps.state;
        by_steps = joined(by_steps, step.run_on(device, count == 1, 96));
        steps.state = step.state;
        first += count;
      }
      CHECK(by_steps == out);
      CHECK(steps.state == whole.state);
    }
    MESSAGE(device.description(), ": largest error ", worst);
  });
}

TEST_CASE("delta_rule: NaN stays in its head") {
  on_devices([](Device& device) {
    const Dims d{1, 2, 32, 8};
    Rule rule(d, 2);
    rule.qkv[d.channels() - 1] = NAN;  // v of token 0, head 1, row 7
    const std::vector<float> out = rule.run_on(device, true, 64);
    for (uint32_t t = 0; t < 2; ++t)
      for (uint32_t i = 0; i < d.values(); ++i) CHECK(std::isnan(out[t * d.values() + i]) == (i >= d.value_dim));
    for (uint32_t r = 0; r < d.values(); ++r) CHECK(std::isnan(rule.state[r * d.key_dim]) == (r == d.values() - 1));
  });
}

TEST_CASE("delta net: projections beyond 4 GiB") {
  on_devices([](Device& device) {
    // Five tokens whose projections are 2^30 floats apart: those of the last begin beyond 2^32 floats.
    const Dims d{1, 1, 32, 8};
    const uint32_t tokens = 5, stride = 1u << 30;
    const auto far = allocate_sparse(device, (uint64_t(tokens - 1) * stride + d.stride()) * sizeof(float));
    if (!far) return;
    const Convolution convolution(d);
    const std::vector<float> in = random_floats(size_t(tokens) * d.stride(), 15), past(size_t(3) * d.channels());
    for (uint64_t t = 0; t < tokens; ++t)
      device.write(*far, t * stride * sizeof(float), in.data() + t * d.stride(), d.stride() * sizeof(float));
    const Prepared expected = convolution.run_on(device, in, past);
    const auto past_memory = upload(device, past), conv = upload(device, convolution.conv1d),
               log = upload(device, convolution.A_log), bias = upload(device, convolution.dt_bias),
               qkv = upload(device, expected.qkv), decay = upload(device, expected.decay),
               beta = upload(device, expected.beta);
    run(device, {"delta_net", "delta_prepare"}, {},
        {{far.get()},
         {past_memory.get(), 0, true},
         {conv.get()},
         {log.get()},
         {bias.get()},
         {qkv.get(), 0, true},
         {decay.get(), 0, true},
         {beta.get(), 0, true}},
        DeltaPrepareArgs{d.key_heads, d.value_heads, d.key_dim, d.value_dim, d.kernel, tokens, stride, d.b(), d.a()},
        {3, tokens}, 32);
    run(device, {"delta_net", "conv_save"}, {}, {{far.get()}, {past_memory.get(), 0, true}},
        ConvSaveArgs{d.channels(), d.kernel, tokens, stride}, {1}, 96);
    CHECK(download<float>(device, *qkv) == expected.qkv);
    CHECK(download<float>(device, *decay) == expected.decay);
    CHECK(download<float>(device, *beta) == expected.beta);
    CHECK(download<float>(device, *past_memory) == expected.past);

    Rule rule(d, tokens);
    const std::vector<float> result = random_floats(size_t(tokens) * d.values(), 31);
    for (uint64_t t = 0; t < tokens; ++t)
      device.write(*far, t * stride * sizeof(float), rule.projected.data() + t * d.stride(),
                   d.stride() * sizeof(float));
    const auto weight = upload(device, rule.weight), near = upload(device, rule.projected),
               out = upload(device, result), out_far = upload(device, result);
    DeltaRuleArgs args{1, 1, d.key_dim, d.value_dim, tokens, d.stride(), d.z(), 0, 1e-6f};
    run(device, {"delta_net", "gated_norm"}, {}, {{out.get(), 0, true}, {near.get()}, {weight.get()}}, args,
        {1, tokens}, 32);
    args.z_stride = stride;
    run(device, {"delta_net", "gated_norm"}, {}, {{out_far.get(), 0, true}, {far.get()}, {weight.get()}}, args,
        {1, tokens}, 32);
    CHECK(download<float>(device, *out_far) == download<float>(device, *out));
    CHECK(download<float>(device, *out) != result);
  });
}
