// Snapshots with a state of plain memory and no model: what comes back, what is shared, what goes when room is needed.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "base/xxhash.h"
#include "engine/snapshot_file.h"
#include "engine/snapshot_store.h"
#include "temp_folder.h"

using namespace swiftlet;

namespace {

constexpr int64_t kContext = 512;

ModelConfig small_config() {
  ModelConfig c;
  c.num_hidden_layers = 4;
  c.linear_layers = {true, true, false, false};
  c.moe_layers = {false, false, false, false};
  c.hidden_size = 32;
  c.head_dim = 16;
  c.num_attention_heads = 2;
  c.num_key_value_heads = 2;
  c.linear_num_key_heads = 2;
  c.linear_num_value_heads = 4;
  c.linear_key_head_dim = 16;
  c.linear_value_head_dim = 16;
  c.linear_conv_kernel_dim = 4;
  return c;
}

// A state, and a "model" that makes it a function of the tokens: each token writes its row, and the DeltaNet states
// depend on all of them.
struct Conversation {
  explicit Conversation(KvType kv = KvType::F16)
      : config(small_config()),
        backend(make_cpu_backend(config, 1, "reference")),
        shape(state_shape(config, kv)),
        state(make_state(config, *backend, kContext, kv)) {}

  void feed(std::span<const int32_t> more) {
    for (const int32_t token : more) {
      tokens.push_back(token);
      const uint64_t seed = xxh64(tokens.data(), tokens.size() * sizeof(int32_t));
      const auto layers = delta_net_buffers(state);
      for (size_t i = 0; i < layers.size(); i++) fill(*layers[i], 0, shape.delta_nets[i], seed + i);
      const auto rows = kv_buffers(state);
      for (size_t i = 0; i < rows.size(); i++)
        fill(*rows[i], (tokens.size() - 1) * shape.kv_rows[i], shape.kv_rows[i], seed + 100 + i);
    }
    state.position = int64_t(tokens.size());
  }

  // Starts from the store as an engine does.
  int64_t resume(SnapshotStore& store, std::span<const int32_t> prompt) {
    const int64_t from = store.restore(state, tokens, prompt);
    tokens.assign(prompt.begin(), prompt.begin() + from);
    state.position = from;
    return from;
  }

  // All that counts: DeltaNet states, and the rows up to the position.
  std::vector<std::byte> bytes() {
    std::vector<std::byte> all;
    Snapshot whole;
    whole.tokens = tokens;
    whole.lender = &state;
    write_state(shape, whole, [&](const std::byte* data, size_t n) { all.insert(all.end(), data, data + n); });
    return all;
  }

  static void fill(Buffer& buffer, uint64_t offset, uint64_t bytes, uint64_t seed) {
    std::vector<uint8_t> values(bytes);
    for (size_t i = 0; i < bytes; i++) values[i] = uint8_t((seed * 31 + i * 7) >> 3);
    buffer.write(offset, values.data(), bytes);
  }

  ModelConfig config;
  std::unique_ptr<Backend> backend;
  StateShape shape;
  ModelState state;
  std::vector<int32_t> tokens;
};

std::vector<int32_t> text(int seed, int length) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<int32_t> tokens(static_cast<size_t>(length));
  for (int32_t& token : tokens) token = int32_t(random() % 1000);
  return tokens;
}

std::vector<std::byte> cold(std::span<const int32_t> tokens, KvType kv = KvType::F16) {
  Conversation fresh(kv);
  fresh.feed(tokens);
  return fresh.bytes();
}

SnapshotOptions in_memory(uint64_t bytes) {
  SnapshotOptions options;
  options.memory = bytes;
  return options;
}

SnapshotOptions on_disk(const std::string& folder, uint64_t memory, uint64_t disk = uint64_t(1) << 30) {
  SnapshotOptions options;
  options.memory = memory;
  options.folder = folder;
  options.disk = disk;
  options.identity = 42;
  return options;
}

constexpr uint64_t kPlenty = uint64_t(1) << 30;

// Feeds a prompt whose boundary is `end` tokens in; returns the tokens that were known.
int64_t say(SnapshotStore& store, Conversation& talk, const std::vector<int32_t>& prompt, int64_t end) {
  store.longest_prefix(prompt);
  const int64_t known = talk.resume(store, prompt);
  const auto rest = std::span(prompt).subspan(size_t(known));
  if (known < end) {
    talk.feed(rest.first(size_t(end - known)));
    store.take(talk.state, talk.tokens, Keep::Turn);
    talk.feed(rest.subspan(size_t(end - known)));
  } else {
    talk.feed(rest);
  }
  CHECK(talk.bytes() == cold(prompt));
  return known;
}

}  // namespace

TEST_CASE("xxh64: the values of the reference implementation, whatever the pieces") {
  std::vector<uint8_t> data(1000);
  for (size_t i = 0; i < data.size(); i++) data[i] = uint8_t(i * 7 + 3);
  const std::pair<size_t, uint64_t> known[] = {
      {0, 0xef46db3751d8e999},   {1, 0x1f25c8d0bc1f4bb6},   {3, 0x31d2363f52e564c9},   {4, 0x9bb64b7d66ee9fda},
      {7, 0x9a7b149959ce60d8},   {8, 0xdab99d95c6f90092},   {14, 0xc7f1d4d0acfa5a14},  {31, 0xa2aa5f33cc4a6119},
      {32, 0x23c3c17ef790fd97},  {33, 0x50a7cfc7ba588784},  {63, 0x5e3e54b431c7493c},  {64, 0x0eb64b3ef6eeb01f},
      {100, 0xa61f8d4c170fe531}, {222, 0x8488aa61fc67f7eb}, {1000, 0x5f235fa033f1a3fb}};
  for (const auto& [length, want] : known) {
    CHECK(xxh64(data.data(), length) == want);
    for (const size_t piece : {1, 5, 31, 32, 33, 100}) {
      Xxh64 hash;
      for (size_t at = 0; at < length; at += piece) {
        hash.update(data.data() + at, std::min(piece, length - at));
        hash.digest();  // may be asked at any time
      }
      CHECK(hash.digest() == want);
    }
  }
}

TEST_CASE("state: its shape says what its buffers hold") {
  for (const KvType kv : {KvType::F32, KvType::F16, KvType::Int8}) {
    Conversation talk(kv);
    const auto layers = delta_net_buffers(talk.state), rows = kv_buffers(talk.state);
    REQUIRE(layers.size() == talk.shape.delta_nets.size());
    REQUIRE(rows.size() == talk.shape.kv_rows.size());
    for (size_t i = 0; i < layers.size(); i++) CHECK(layers[i]->bytes() == talk.shape.delta_nets[i]);
    for (size_t i = 0; i < rows.size(); i++) CHECK(rows[i]->bytes() == kContext * talk.shape.kv_rows[i]);
    CHECK(state_bytes(talk.config, 7, kv) == talk.shape.delta_bytes + 7 * talk.shape.row_bytes);
  }
}

TEST_CASE("snapshots: the same bytes come back, and rows are copied only when they are about to go") {
  for (const KvType kv : {KvType::F32, KvType::F16, KvType::Int8}) {
    Conversation talk(kv);
    SnapshotStore store(talk.shape, in_memory(kPlenty));
    const auto a = text(1, 100), b = text(2, 80);
    talk.feed(std::span(a).first(60));
    store.take(talk.state, talk.tokens, Keep::Turn);
    const uint64_t borrowed = store.stats().memory_bytes;
    CHECK(borrowed < talk.shape.delta_bytes + 2 * 16384);  // no rows
    talk.feed(std::span(a).subspan(60));
    CHECK(talk.resume(store, a) == 60);  // the rows are still there
    CHECK(store.stats().memory_bytes == borrowed);
    CHECK(talk.bytes() == cold(std::span(a).first(60), kv));

    talk.feed(std::span(a).subspan(60));
    CHECK(talk.resume(store, b) == 0);
    CHECK(store.stats().memory_bytes >= borrowed + 60 * talk.shape.row_bytes);
    talk.feed(b);
    CHECK(talk.resume(store, a) == 60);
    CHECK(talk.bytes() == cold(std::span(a).first(60), kv));
  }
}

TEST_CASE("snapshots: of one conversation share their rows") {
  Conversation talk;
  SnapshotStore store(talk.shape, in_memory(kPlenty));
  const auto a = text(1, 400), b = text(2, 10);
  for (int end = 50; end <= 400; end += 50) {
    talk.feed(std::span(a).subspan(size_t(end - 50), 50));
    store.take(talk.state, talk.tokens, Keep::Turn);
  }
  talk.resume(store, b);
  CHECK(store.stats().in_memory == 8);
  const uint64_t rows = store.stats().memory_bytes - 8 * CountedMemory::counted(talk.shape.delta_bytes);
  CHECK(rows < 400 * talk.shape.row_bytes + 8 * 16384 + 8 * 400 * sizeof(int32_t));
  for (int end = 400; end >= 50; end -= 50) {
    talk.feed(b);
    std::vector<int32_t> prompt(a.begin(), a.begin() + end);
    prompt.push_back(-1);
    CHECK(talk.resume(store, prompt) == end);
    CHECK(talk.bytes() == cold(std::span(a).first(size_t(end))));
  }
}

TEST_CASE("snapshots: the tokens must be a proper prefix") {
  Conversation talk;
  SnapshotStore store(talk.shape, in_memory(kPlenty));
  const auto a = text(1, 50);
  talk.feed(a);
  store.take(talk.state, talk.tokens, Keep::Turn);
  CHECK(store.longest_prefix(a) == 0);
  CHECK(store.longest_prefix(std::span(a).first(20)) == 0);
  std::vector<int32_t> longer = a;
  longer.push_back(7);
  CHECK(store.longest_prefix(longer) == 50);
  longer[49]++;
  CHECK(store.longest_prefix(longer) == 0);
}

TEST_CASE("snapshots: the budget holds, and the least recently used goes") {
  Conversation talk;
  const uint64_t one = CountedMemory::counted(talk.shape.delta_bytes) + 100 * sizeof(int32_t) +
                       CountedMemory::counted(90 * talk.shape.row_bytes);
  SnapshotStore store(talk.shape, in_memory(3 * one + one / 2));
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 5; i++) prompts.push_back(text(i, 100));
  for (const int i : {0, 1, 2, 0, 3}) {
    say(store, talk, prompts[size_t(i)], 90);
    CHECK(store.stats().memory_bytes <= 3 * one + one / 2);
  }
  CHECK(store.stats().in_memory == 4);  // the rows of the last are still borrowed
  store.keep_rows(talk.state, 0);
  CHECK(store.stats().in_memory == 3);
  CHECK(store.stats().memory_bytes <= 3 * one + one / 2);
  // 1 was used least recently.
  for (const auto& [i, known] : {std::pair(0, 90), std::pair(2, 90), std::pair(3, 90), std::pair(1, 0)})
    CHECK(store.longest_prefix(prompts[size_t(i)]) == known);
}

TEST_CASE("snapshots: what is passing pushes out only its like") {
  Conversation talk;
  const uint64_t one = CountedMemory::counted(talk.shape.delta_bytes) + 400 * sizeof(int32_t);
  SnapshotStore store(talk.shape, in_memory(2 * one));
  const auto a = text(1, 400);
  for (const auto& [end, keep] : {std::pair(100, Keep::Turn), std::pair(200, Keep::Passing),
                                  std::pair(300, Keep::Passing), std::pair(350, Keep::Passing)}) {
    talk.feed(std::span(a).subspan(talk.tokens.size(), size_t(end) - talk.tokens.size()));
    store.take(talk.state, talk.tokens, keep);
  }
  CHECK(store.stats().in_memory == 2);
  CHECK(store.longest_prefix(a) == 350);
  CHECK(store.longest_prefix(std::span(a).first(340)) == 100);
}

TEST_CASE("snapshots: a session that goes leaves its snapshots whole") {
  const auto a = text(1, 60);
  Conversation other;
  SnapshotStore store(other.shape, in_memory(kPlenty));
  {
    Conversation talk;
    talk.feed(std::span(a).first(50));
    store.take(talk.state, talk.tokens, Keep::Turn);
    store.keep_rows(talk.state, 0);
  }
  CHECK(other.resume(store, a) == 50);
  CHECK(other.bytes() == cold(std::span(a).first(50)));
}

TEST_CASE("snapshots: on disk, from memory, from a session, and after a restart") {
  for (const uint64_t memory : {uint64_t(0), uint64_t(60000), kPlenty}) {
    const TempFolder folder;
    std::vector<std::vector<int32_t>> prompts;
    for (int i = 0; i < 4; i++) prompts.push_back(text(i, 100));
    {
      Conversation talk;
      SnapshotStore store(talk.shape, on_disk(folder / "states", memory));
      for (const auto& prompt : prompts) CHECK(say(store, talk, prompt, 90) == 0);
      for (const auto& prompt : prompts) CHECK(say(store, talk, prompt, 90) == 90);
      store.keep_rows(talk.state, 0);
      store.flush();
      CHECK(store.stats().on_disk == 4);
      CHECK(store.take_warnings().empty());
    }
    Conversation talk;
    SnapshotStore store(talk.shape, on_disk(folder / "states", memory));
    CHECK(store.stats().on_disk == 4);
    for (const auto& prompt : prompts) CHECK(say(store, talk, prompt, 90) == 90);
    store.clear();
    CHECK(std::filesystem::is_empty(folder / "states"));
  }
}

TEST_CASE("snapshots: a file that is damaged anywhere is refused, and the state goes on from the next best") {
  const TempFolder folder;
  const auto a = text(1, 100);
  {
    Conversation talk;
    SnapshotStore store(talk.shape, on_disk(folder.path(), 0));
    talk.feed(std::span(a).first(40));
    store.take(talk.state, talk.tokens, Keep::Turn);
    talk.feed(std::span(a).subspan(40, 40));
    store.take(talk.state, talk.tokens, Keep::Turn);
  }
  std::string longer;
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    if (file.path().string().ends_with("-80.snapshot")) longer = file.path().string();
  REQUIRE(!longer.empty());
  std::string whole;
  {
    std::ifstream in(longer, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::mt19937 random(3);
  for (int round = 0; round < 60; round++) {
    std::string bytes = whole;
    if (round % 3 == 0)
      bytes.resize(random() % whole.size());
    else
      bytes[round % 3 == 1 ? random() % 400 : random() % whole.size()] ^= char(1 << random() % 8);
    write_file(longer, bytes);
    Conversation talk;
    SnapshotStore store(talk.shape, on_disk(folder.path(), 0));
    CHECK(talk.resume(store, a) == 40);
    CHECK(talk.bytes() == cold(std::span(a).first(40)));
    const auto warnings = store.take_warnings();
    REQUIRE(warnings.size() == 1);
    // A damaged identity shows in the header's hash first, so it is never taken for another model's.
    CHECK(lacks(warnings[0], {longer}) == "");
  }
}

TEST_CASE("snapshots: a header that lies about its sizes is refused") {
  const TempFolder folder;
  Conversation talk;
  talk.feed(text(1, 40));
  Snapshot snapshot;
  snapshot.tokens = talk.tokens;
  snapshot.lender = &talk.state;
  const std::string path = folder / "x.snapshot";
  write_snapshot(path, 42, talk.shape, snapshot);
  CHECK(check_snapshot(path, 42, talk.shape)->position == 40);
  CHECK(!check_snapshot(path, 43, talk.shape));
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  for (const uint64_t position : {uint64_t(0), uint64_t(41), uint64_t(1) << 61, UINT64_MAX}) {
    std::memcpy(bytes.data() + 24, &position, sizeof position);
    const uint64_t hash = xxh64(bytes.data(), 56);
    std::memcpy(bytes.data() + 56, &hash, sizeof hash);
    write_file(path, bytes);
    CHECK(lacks(error_of(ErrorKind::Container, [&] { check_snapshot(path, 42, talk.shape); }), {path, "is damaged"}) ==
          "");
  }
}

TEST_CASE("snapshots: a full disk leaves nothing behind") {
  const TempFolder folder;
  Conversation talk;
  SnapshotStore store(talk.shape, on_disk(folder.path(), 0));
  talk.feed(text(1, 40));
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limits;
  getrlimit(RLIMIT_FSIZE, &limits);
  rlimit tight = limits;
  tight.rlim_cur = 5000;
  setrlimit(RLIMIT_FSIZE, &tight);
  store.take(talk.state, talk.tokens, Keep::Turn);
  setrlimit(RLIMIT_FSIZE, &limits);
  std::signal(SIGXFSZ, handler);
  CHECK(store.stats().on_disk == 0);
  CHECK(std::filesystem::is_empty(folder.path()));
  const auto warnings = store.take_warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(lacks(warnings[0], {"cannot be written", "not kept on disk"}) == "");
}

TEST_CASE("snapshots: the folder has a budget of its own") {
  const TempFolder folder;
  Conversation talk;
  const uint64_t file = 64 + 90 * sizeof(int32_t) + talk.shape.delta_bytes + 90 * talk.shape.row_bytes;
  SnapshotStore store(talk.shape, on_disk(folder.path(), 0, 2 * file + file / 2));
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 3; i++) prompts.push_back(text(i, 100));
  for (const int i : {0, 1, 0, 2}) say(store, talk, prompts[size_t(i)], 90);
  CHECK(store.stats().disk_bytes == 2 * file);
  for (const auto& [i, known] : {std::pair(0, 90), std::pair(2, 90), std::pair(1, 0)})
    CHECK(store.longest_prefix(prompts[size_t(i)]) == known);
}
