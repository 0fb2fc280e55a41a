#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "container/layout.h"
#include "container/qpack.h"
#include "temp_folder.h"

using namespace swiftlet;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

json section(const std::string& name, const std::string& dtype, std::vector<int> shape, int offset, int size) {
  return {{"name", name}, {"dtype", dtype}, {"shape", shape}, {"offset", offset}, {"size", size}};
}

// Four layers of three experts: two as the top level says, one with larger blobs, one without experts.
json make_layout() {
  json layout = {{"expertCount", 3},
                 {"layerCount", 4},
                 {"expertStride", 16384},
                 {"linearLayers", {true, true, true, false}},
                 {"sections", json::array()}};
  int offset = 0;
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
    layout["sections"].push_back(section(name + std::string(".weight"), "U32", {64, 8}, offset, 2048));
    layout["sections"].push_back(section(name + std::string(".scales"), "BF16", {64, 1}, offset + 2048, 128));
    layout["sections"].push_back(section(name + std::string(".biases"), "BF16", {64, 1}, offset + 2176, 128));
    offset += 2304;
  }
  const json wide = {{"expertStride", 32768}, {"sections", {section("down_proj.weight", "F32", {64, 128}, 0, 32768)}}};
  const json dense = {{"expertStride", 0}, {"sections", json::array()}};
  layout["layers"] = {{"1", wide}, {"2", dense}};
  return layout;
}

json make_manifest() {
  return {{"magic", "QPACK"},
          {"version", 1},
          {"modelName", "qwen3_next"},
          {"sourceCheckpoint", "x"},
          {"files", json::object()}};
}

const std::string kTensors = [] {
  const std::string header = R"({"model.norm.weight":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})";
  return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "01234567";
}();

void write_hole(const std::string& path, uint64_t bytes) {
  write_file(path, "");
  fs::resize_file(path, bytes);
}

// Writes everything but the manifest.
void write_contents(const std::string& path, const json& layout) {
  write_file(path + "/config.json", R"({"model_type":"qwen3_next"})");
  write_file(path + "/model.safetensors", kTensors);
  write_file(path + "/packed_experts/layout.json", layout.dump());
  write_hole(path + "/packed_experts/layer_00.bin", 3 * 16384);
  write_hole(path + "/packed_experts/layer_01.bin", 3 * 32768);
  write_hole(path + "/packed_experts/layer_03.bin", 3 * 16384);
}

void write_container(const std::string& path, const json& layout = make_layout()) {
  write_contents(path, layout);
  json manifest = make_manifest();
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) manifest["files"][fs::relative(entry.path(), path).string()] = entry.file_size();
  write_file(path + "/manifest.json", manifest.dump());
}

std::string open_error(const std::string& path) {
  return error_of(ErrorKind::Container, [&] { open_qpack(path); });
}

// One change to a good document, and what the message must say. The value is JSON; nullptr: the key is removed.
struct Change {
  const char* pointer;
  const char* value;
  std::vector<std::string> says;

  json applied(json document) const {
    const json::json_pointer at(pointer);
    if (value)
      document[at] = json::parse(value);
    else
      document[at.parent_pointer()].erase(at.back());
    return document;
  }
};

}  // namespace

TEST_CASE("qpack: everything that a container says") {
  const TempFolder folder;
  write_container(folder.path());
  write_file(folder / "generation_config.json", "{\"eos_token_id\":7}");
  const Qpack qpack = open_qpack(folder.path());
  CHECK(qpack.path == folder.path());
  CHECK(qpack.model_name == "qwen3_next");
  CHECK(qpack.config_json == R"({"model_type":"qwen3_next"})");
  CHECK(qpack.generation_json == "{\"eos_token_id\":7}");
  REQUIRE(qpack.resident.find("model.norm.weight"));
  char bytes[8];
  qpack.resident.read(*qpack.resident.find("model.norm.weight"), 0, bytes, 8);
  CHECK(std::string(bytes, 8) == "01234567");

  CHECK(qpack.layer_count == 4);
  CHECK(qpack.expert_count == 3);
  CHECK(qpack.linear_layers == std::vector<bool>{true, true, true, false});
  CHECK(qpack.max_stride == 32768);
  REQUIRE(qpack.layouts.size() == 4);
  for (int layer : {0, 3}) {
    CHECK(qpack.layouts[layer].stride == 16384);
    CHECK(qpack.layouts[layer].sections.size() == 9);
  }
  const Section* scales = qpack.layouts[0].find("up_proj.scales");
  REQUIRE(scales);
  CHECK(scales->dtype == DType::BF16);
  CHECK(scales->shape == std::vector<int64_t>{64, 1});
  CHECK(scales->offset == 2304 + 2048);
  CHECK(scales->bytes == 128);
  CHECK_FALSE(qpack.layouts[0].find("up_proj"));

  CHECK(qpack.layouts[1].stride == 32768);
  REQUIRE(qpack.layouts[1].sections.size() == 1);
  CHECK(qpack.layouts[1].sections[0].name == "down_proj.weight");
  CHECK(qpack.layouts[2].stride == 0);
  CHECK(qpack.layouts[2].sections.empty());

  CHECK(qpack.layer_path(3) == folder / "packed_experts/layer_03.bin");
  CHECK(qpack.layer_path(47) == folder / "packed_experts/layer_47.bin");
  CHECK(qpack.layer_path(100) == folder / "packed_experts/layer_100.bin");
}

TEST_CASE("qpack: a manifest need not list every file, and may hold more") {
  const TempFolder folder;
  write_contents(folder.path(), make_layout());
  json manifest = make_manifest();
  manifest.erase("sourceCheckpoint");
  manifest["quantBits"] = nullptr;
  manifest["later"] = {1, 2};
  write_file(folder / "manifest.json", manifest.dump());
  const Qpack qpack = open_qpack(folder.path());
  CHECK(qpack.generation_json == "");
  CHECK(qpack.layer_count == 4);
}

TEST_CASE("qpack: a manifest that is wrong") {
  const TempFolder folder;
  write_container(folder.path());
  json good = make_manifest();
  good["files"]["config.json"] = 27;
  const std::vector<Change> changes = {
      {"/magic", R"("GPACK")", {"magic is \"GPACK\"", "QPACK", "repack"}},
      {"/magic", "7", {"magic is 7", "string"}},
      {"/magic", nullptr, {"magic is missing"}},
      {"/version", "2", {"version is 2", "reads version 1", "update swiftlet"}},
      {"/version", "0", {"version is 0"}},
      {"/version", "-1", {"version is -1"}},
      {"/version", "1.0", {"version is 1.0"}},
      {"/version", R"("1")", {"version is \"1\""}},
      {"/version", "1099511627776", {"version is 1099511627776"}},
      {"/version", nullptr, {"version is missing"}},
      {"/modelName", nullptr, {"modelName is missing"}},
      {"/modelName", "[]", {"modelName is an array"}},
      {"/files", nullptr, {"files is missing"}},
      {"/files", R"(["config.json"])", {"files is an array", "object"}},
      {"/files/config.json", "5", {"\"config.json\" has 27 bytes, but is listed with 5"}},
      {"/files/config.json", "-5", {"\"config.json\" is -5"}},
      {"/files/config.json", R"("27")", {"\"config.json\" is \"27\""}},
      {"/files/absent.json", "5", {"\"absent.json\" is listed, but missing"}},
  };
  for (const Change& change : changes) {
    CAPTURE(change.pointer);
    write_file(folder / "manifest.json", change.applied(good).dump());
    const std::string message = open_error(folder.path());
    CHECK(lacks(message, {folder / "manifest.json: "}) == "");
    for (const std::string& part : change.says) CHECK(lacks(message, {part}) == "");
  }
  for (const char* text : {"", "{", "QPACK", "{\"magic\":\"QPACK\"}}", "\xef\xbb\xbf["}) {
    CAPTURE(text);
    write_file(folder / "manifest.json", text);
    CHECK(lacks(open_error(folder.path()), {folder / "manifest.json", "not valid JSON", "repack"}) == "");
  }
  write_file(folder / "manifest.json", "[]");
  CHECK(lacks(open_error(folder.path()), {folder / "manifest.json", "the top level is an array"}) == "");
  write_hole(folder / "manifest.json", (uint64_t(64) << 20) + 1);
  CHECK(lacks(open_error(folder.path()), {folder / "manifest.json", "67108865 bytes"}) == "");
}

TEST_CASE("qpack: a layout that is wrong") {
  const std::string too_many = json(std::vector<json>(65)).dump();
  const std::vector<Change> changes = {
      {"/layerCount", nullptr, {"layerCount is missing"}},
      {"/layerCount", "0", {"layerCount is 0"}},
      {"/layerCount", "-4", {"layerCount is -4"}},
      {"/layerCount", "5", {"linearLayers has 4 entries, but layerCount is 5"}},
      {"/layerCount", "1000000000", {"layerCount is 1000000000"}},
      {"/expertCount", nullptr, {"expertCount is missing"}},
      {"/expertCount", R"("3")", {"expertCount is \"3\""}},
      {"/expertCount", "0", {"expertStride is 16384", "0 where expertCount is 0"}},
      {"/expertCount", "18446744073709551615", {"expertCount is 18446744073709551615"}},
      {"/linearLayers", nullptr, {"linearLayers is missing"}},
      {"/linearLayers", "true", {"linearLayers is true", "array"}},
      {"/linearLayers/2", "1", {"linearLayers[2] is 1", "true or false"}},
      {"/expertStride", nullptr, {"expertStride is missing"}},
      {"/expertStride", "16383", {"expertStride is 16383", "multiple of 16384"}},
      {"/expertStride", "-16384", {"expertStride is -16384"}},
      {"/expertStride", "1.5", {"expertStride is 1.5"}},
      {"/expertStride", "4611686018427387904", {"expertStride is 4611686018427387904", "fit in a file"}},
      {"/expertStride", "9223372036854775808", {"expertStride is 9223372036854775808"}},
      {"/expertStride", "0", {"sections must be empty"}},
      {"/sections", nullptr, {"sections is missing"}},
      {"/sections", "{}", {"sections is an object", "array"}},
      {"/sections", too_many.c_str(), {"sections has more than 64 entries"}},
      {"/sections/1", "null", {"sections[1] is null"}},
      {"/sections/1/name", nullptr, {"sections[1].name is missing"}},
      {"/sections/1/name", R"("gate_proj.weight")", {"sections[1].name", "before"}},
      {"/sections/1/dtype", nullptr, {"sections[1].dtype is missing"}},
      {"/sections/1/dtype", R"("bf16")", {"sections[1].dtype is \"bf16\""}},
      {"/sections/1/shape", nullptr, {"sections[1].shape is missing"}},
      {"/sections/1/shape", "[64,-1]", {"sections[1].shape[1] is -1"}},
      {"/sections/1/shape", "[64,2]", {"sections[1].size is 128, but must be 256"}},
      {"/sections/1/shape", "[4611686018427387904,4]", {"sections[1].shape", "2^64"}},
      {"/sections/1/offset", nullptr, {"sections[1].offset is missing"}},
      {"/sections/1/offset", "-2", {"sections[1].offset is -2"}},
      {"/sections/1/offset", "7001", {"sections[1].offset is 7001", "multiple of 2"}},
      {"/sections/0/offset", "6914", {"sections[0].offset is 6914", "multiple of 4"}},
      {"/sections/1/offset", "2046", {"overlap", "gate_proj.weight", "gate_proj.scales"}},
      {"/sections/1/offset", "16258", {"sections[1] reaches beyond the expertStride of 16384"}},
      {"/sections/1/offset", "18446744073709551614", {"sections[1].offset is 18446744073709551614"}},
      {"/sections/1/size", nullptr, {"sections[1].size is missing"}},
      {"/sections/1/size", "127", {"sections[1].size is 127, but must be 128"}},
      {"/sections/1/size", "16386", {"sections[1].size is 16386"}},
      {"/layers", "[]", {"layers is an array"}},
      {"/layers/4", "{}", {"layers.\"4\" is not the number of a layer; layerCount is 4"}},
      {"/layers/-1", "{}", {"layers.\"-1\" is not the number of a layer"}},
      {"/layers/+1", "{}", {"layers.\"+1\" is not the number of a layer"}},
      {"/layers/01", "{}", {"layers.\"01\" is not the number of a layer"}},
      {"/layers/1x", "{}", {"layers.\"1x\" is not the number of a layer"}},
      {"/layers/", "{}", {"layers.\"\" is not the number of a layer"}},
      {"/layers/99999999999999999999", "{}", {"is not the number of a layer"}},
      {"/layers/1", "5", {"layers.\"1\" is 5", "object"}},
      {"/layers/1/expertStride", nullptr, {"layers.\"1\".expertStride is missing"}},
      {"/layers/1/sections", nullptr, {"layers.\"1\".sections is missing"}},
      {"/layers/1/expertStride", "16384", {"layers.\"1\".sections[0].size is 32768"}},
      {"/layers/2/sections",
       R"([{"name":"w","dtype":"U8","shape":[0],"offset":0,"size":0}])",
       {"layers.\"2\".sections must be empty"}},
  };
  for (const Change& change : changes) {
    CAPTURE(change.pointer);
    Qpack qpack;
    const std::string message = error_of(
        ErrorKind::Container, [&] { parse_layout(change.applied(make_layout()).dump(), "x/layout.json", qpack); });
    CHECK(lacks(message, {"x/layout.json: ", "; the container is damaged: make it again with `swiftlet repack`"}) ==
          "");
    for (const std::string& part : change.says) CHECK(lacks(message, {part}) == "");
  }
}

TEST_CASE("qpack: layouts that are unusual and right") {
  Qpack qpack;
  json layout = make_layout();
  layout["sections"][0]["bits"] = 4;
  layout["sections"][0]["mode"] = "affine";
  layout["layers"].erase("1");
  layout["format"] = {{"later", true}};
  parse_layout(layout.dump(), "x", qpack);
  CHECK(qpack.layouts[1].sections.size() == 9);
  CHECK(qpack.max_stride == 16384);

  // Nothing but dense layers.
  parse_layout(R"({"expertCount":0,"layerCount":1,"expertStride":0,"sections":[],"linearLayers":[false]})", "x", qpack);
  CHECK(qpack.layer_count == 1);
  CHECK(qpack.layouts.size() == 1);
  CHECK(qpack.max_stride == 0);
}

TEST_CASE("qpack: layouts that are cut off or have flipped bits") {
  const std::string whole = make_layout().dump();
  const auto survives = [](const std::string& text) {
    Qpack qpack;
    try {
      parse_layout(text, "x/layout.json", qpack);
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::Container);
      REQUIRE(lacks(error.what(), {"x/layout.json"}) == "");
      return false;
    }
    REQUIRE(qpack.layouts.size() == static_cast<size_t>(qpack.layer_count));
    REQUIRE(qpack.linear_layers.size() == qpack.layouts.size());
    for (const ExpertLayout& layout : qpack.layouts) {
      REQUIRE(layout.stride <= qpack.max_stride);
      REQUIRE((qpack.expert_count == 0 || layout.stride <= INT64_MAX / uint64_t(qpack.expert_count)));
      for (const Section& s : layout.sections) {
        REQUIRE(s.bytes <= layout.stride);
        REQUIRE(s.offset <= layout.stride - s.bytes);
        REQUIRE(s.offset % size_of(s.dtype) == 0);
      }
    }
    return true;
  };
  CHECK(survives(whole));
  int refused = 0;
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) refused += !survives(whole.substr(0, bytes));
  CHECK(refused == int(whole.size()));

  refused = 0;
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (int flips = 0; flips < 1 + round % 3; ++flips)
      text[random() % text.size()] ^= static_cast<char>(1 << random() % 8);
    refused += !survives(text);
  }
  CHECK(refused > 1500);
}

TEST_CASE("qpack: files that are missing or have another size") {
  for (bool listed : {true, false}) {
    CAPTURE(listed);
    for (const char* name : {"config.json", "model.safetensors", "packed_experts/layout.json",
                             "packed_experts/layer_00.bin", "packed_experts/layer_01.bin"}) {
      CAPTURE(name);
      const TempFolder folder;
      write_container(folder.path());
      if (!listed) write_file(folder / "manifest.json", make_manifest().dump());
      fs::remove(folder / name);
      CHECK(lacks(open_error(folder.path()), {folder.path(), name, "missing", "repack"}) == "");
    }
    for (int change : {-16384, -1, 1, 16384}) {
      const TempFolder folder;
      write_container(folder.path());
      if (!listed) write_file(folder / "manifest.json", make_manifest().dump());
      fs::resize_file(folder / "packed_experts/layer_01.bin", 3 * 32768 + change);
      CHECK(lacks(open_error(folder.path()),
                  {folder.path(), "packed_experts/layer_01.bin", std::to_string(3 * 32768 + change) + " bytes",
                   listed ? "listed with 98304" : "3 experts of 32768 bytes", "repack"}) == "");
    }
  }
}

TEST_CASE("qpack: damage in the resident tensors is found on opening") {
  const TempFolder folder;
  write_contents(folder.path(), make_layout());
  write_file(folder / "manifest.json", make_manifest().dump());
  fs::resize_file(folder / "model.safetensors", kTensors.size() - 1);
  CHECK(lacks(open_error(folder.path()), {folder / "model.safetensors", "data_offsets"}) == "");
}

TEST_CASE("qpack: folders that are no container say what to do") {
  const TempFolder folder;
  const std::string path = folder / "model";
  CHECK(lacks(open_error(path), {path, "does not exist"}) == "");

  write_file(path, "");
  CHECK(lacks(open_error(path), {path, "is not a folder"}) == "");
  fs::remove(path);

  write_contents(path, make_layout());  // as an interrupted repack leaves it
  CHECK(lacks(open_error(path), {path, "not a complete container", "manifest.json", "swiftlet repack"}) == "");

  fs::remove_all(path + "/packed_experts");  // now config.json and model.safetensors
  CHECK(lacks(open_error(path), {path, "is a checkpoint", "`swiftlet repack " + path + "`"}) == "");

  fs::remove(path + "/model.safetensors");
  CHECK(lacks(open_error(path), {path, "not a complete container"}) == "");
}

TEST_CASE("qpack: paths in the manifest that leave the folder") {
  const TempFolder folder;
  write_container(folder / "c.qpack");
  write_file(folder / "secret", "12345");
  using namespace std::string_literals;
  for (const std::string& name : {"../secret"s, "packed_experts/../../secret"s, "packed_experts/.."s, ".."s, "."s, ""s,
                                  "/etc/passwd"s, folder / "secret", "./config.json"s, "packed_experts//layout.json"s,
                                  "packed_experts/"s, "..\\secret"s, "config.json\0"s, "\0"s}) {
    CAPTURE(name);
    json manifest = make_manifest();
    manifest["files"][name] = 5;
    write_file(folder / "c.qpack/manifest.json", manifest.dump());
    CHECK(lacks(open_error(folder / "c.qpack"), {folder / "c.qpack", "may lie outside"}) == "");
  }
  json manifest = make_manifest();
  manifest["files"]["packed_experts"] = 5;
  write_file(folder / "c.qpack/manifest.json", manifest.dump());
  CHECK(lacks(open_error(folder / "c.qpack"), {folder / "c.qpack/packed_experts", "not a regular file"}) == "");
}

TEST_CASE("qpack: links that stay inside are followed, links that leave are refused") {
  const TempFolder folder;
  const std::string path = folder / "c.qpack";
  write_container(path);
  fs::create_directory_symlink(path, folder / "link.qpack");
  CHECK(open_qpack(folder / "link.qpack").layer_count == 4);  // the container itself may be a link

  fs::rename(path + "/config.json", path + "/real.json");
  fs::create_symlink("real.json", path + "/config.json");
  CHECK(open_qpack(path).config_json == R"({"model_type":"qwen3_next"})");

  // To a file outside, of the very same size: by a relative and by an absolute link, and through a folder.
  fs::remove(path + "/config.json");
  fs::copy_file(path + "/real.json", folder / "outside.json");
  for (const std::string& target : {std::string("../outside.json"), folder / "outside.json"}) {
    fs::create_symlink(target, path + "/config.json");
    CHECK(lacks(open_error(path), {path + "/config.json", "leaves the container"}) == "");
    fs::remove(path + "/config.json");
  }
  fs::rename(path + "/real.json", path + "/config.json");
  fs::rename(path + "/packed_experts", folder / "experts");
  fs::create_directory_symlink(folder / "experts", path + "/packed_experts");
  CHECK(lacks(open_error(path), {path + "/packed_experts/", "leaves the container"}) == "");
  fs::remove(path + "/packed_experts");
  fs::rename(folder / "experts", path + "/packed_experts");
  CHECK(open_qpack(path).layer_count == 4);

  // Files that the manifest does not list are held to the same rule.
  write_file(path + "/manifest.json", make_manifest().dump());
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors", "packed_experts/layout.json",
                           "packed_experts/layer_00.bin"}) {
    CAPTURE(name);
    const bool existed = fs::exists(path + "/" + name);
    if (existed) fs::rename(path + "/" + name, folder / "kept");
    write_file(folder / "elsewhere", "{}");
    fs::create_symlink(folder / "elsewhere", path + "/" + name);
    CHECK(lacks(open_error(path), {path + "/" + name, "leaves the container"}) == "");
    fs::remove(path + "/" + name);
    if (existed) fs::rename(folder / "kept", path + "/" + name);
  }

  fs::rename(path + "/config.json", folder / "kept");
  fs::create_symlink("config.json", path + "/config.json");  // a circle
  CHECK(lacks(open_error(path), {path, "config.json"}) == "");
}

TEST_CASE("qpack: a snapshot in the Hugging Face cache") {
  const TempFolder folder;
  const std::string model = folder / "hub/models--someone--model";
  const std::string path = model + "/snapshots/0123abcd";
  write_container(path);
  int blobs = 0;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  fs::create_directory(model + "/blobs");
  for (const fs::path& file : files) {
    const std::string blob = model + "/blobs/" + std::to_string(blobs++);
    fs::rename(file, blob);
    fs::create_symlink(fs::relative(blob, file.parent_path()), file);
  }
  CHECK(open_qpack(path).layer_count == 4);

  // Another model's blobs are not ours, and neither is what lies beside the blobs.
  for (const std::string& other :
       {folder / "hub/models--other--model/blobs/0", model + "/refs/0", model + "/blobs2/0"}) {
    write_file(other, R"({"model_type":"qwen3_next"})");
    fs::remove(path + "/config.json");
    fs::create_symlink(other, path + "/config.json");
    CHECK(lacks(open_error(path), {path + "/config.json", "leaves the container"}) == "");
  }

  // The same links outside of a cache are links that leave.
  for (const char* place : {"models--x/copied", "other--x/snapshots"}) {
    CAPTURE(place);
    const std::string copied = folder / place + "/0123abcd";
    write_container(copied);
    write_file(copied + "/../../blobs/0", R"({"model_type":"qwen3_next"})");
    fs::remove(copied + "/config.json");
    fs::create_symlink("../../blobs/0", copied + "/config.json");
    CHECK(lacks(open_error(copied), {copied + "/config.json", "leaves the container"}) == "");
  }
}

TEST_CASE("qpack: a layer number of three digits") {
  const TempFolder folder;
  json layout = make_layout();
  layout["layerCount"] = 101;
  layout["linearLayers"] = std::vector<bool>(101, true);
  const json dense = layout["layers"]["2"];
  layout["layers"] = json::object();
  for (int layer = 0; layer < 100; ++layer) layout["layers"][std::to_string(layer)] = dense;
  write_container(folder.path(), layout);
  CHECK(lacks(open_error(folder.path()), {folder / "packed_experts/layer_100.bin", "missing"}) == "");
  write_hole(folder / "packed_experts/layer_100.bin", 3 * 16384);
  CHECK(open_qpack(folder.path()).layer_count == 101);
}
