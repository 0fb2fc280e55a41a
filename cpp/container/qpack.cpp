#include "container/qpack.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "container/inside.h"
#include "container/json.h"
#include "container/layout.h"

namespace swiftlet {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kVersion = 1;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kConfig = "config.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kTextFiles[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"};
constexpr const char* kResident = "model.safetensors";
constexpr const char* kLayout = "packed_experts/layout.json";
constexpr const char* kRemedy = "the container is damaged: make it again with `swiftlet repack`";

bool holds_checkpoint(const std::string& folder) {
  std::error_code ignored;
  if (!fs::exists(folder + "/" + kConfig, ignored) || fs::exists(folder + "/packed_experts", ignored)) return false;
  const fs::directory_iterator entries(folder, ignored);
  return std::any_of(begin(entries), end(entries),
                     [](const fs::directory_entry& entry) { return entry.path().extension() == ".safetensors"; });
}

// Says what the folder is instead of a container.
[[noreturn]] void refuse_folder(const std::string& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) fail(ErrorKind::Container, folder, " does not exist; check the path");
  if (!fs::is_directory(folder, ignored))
    fail(ErrorKind::Container, folder, " is not a folder; a container is a folder with a ", kManifest);
  if (holds_checkpoint(folder))
    fail(ErrorKind::Container, folder, " is a checkpoint, not a container; make one with `swiftlet repack ", folder,
         "`");
  fail(ErrorKind::Container, folder, " is not a complete container: it has no ", kManifest,
       ", which is written last; run `swiftlet repack` (again)");
}

// The size of a file that must be there.
uint64_t required_size(const std::string& folder, const std::string& relative) {
  const auto size = size_inside(folder, relative);
  if (!size) fail(ErrorKind::Container, folder, "/", relative, " is missing; ", kRemedy);
  return *size;
}

std::string read_inside(const std::string& folder, const char* relative) {
  required_size(folder, relative);
  return read_text(folder + "/" + relative);
}

// Checks magic, version and the files listed. Returns the model's name.
std::string check_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifest;
  const JsonFile json = parse_json(read_inside(folder, kManifest), path, kRemedy);
  const JsonRef root(json);

  const JsonRef magic = root.at("magic");
  if (magic.as_string() != "QPACK") magic.refuse("\"QPACK\"");
  const JsonRef version = root.at("version");
  const uint64_t number = version.as_uint(INT32_MAX);
  if (number > kVersion)
    fail(ErrorKind::Container, path, ": version is ", number, ", but this swiftlet reads version ", kVersion,
         "; update swiftlet");
  if (number == 0) version.refuse("1");

  for (const auto& [relative, entry] : root.at("files").members()) {
    const auto size = size_inside(folder, relative);
    if (!size) entry.complain("is listed, but missing from the folder");
    if (*size != entry.as_uint(INT64_MAX))
      entry.complain("has " + std::to_string(*size) + " bytes, but is listed with " +
                     std::to_string(entry.as_uint(INT64_MAX)));
  }
  return root.at("modelName").as_string();
}

std::string layer_file(int layer) {
  const std::string number = std::to_string(layer);
  return "packed_experts/layer_" + (number.size() < 2 ? "0" + number : number) + ".bin";
}

void check_layer_file(const Qpack& qpack, int layer) {
  const uint64_t stride = qpack.layouts[layer].stride;
  if (stride == 0) return;
  const uint64_t size = required_size(qpack.path, layer_file(layer));
  if (size != stride * qpack.expert_count)  // cannot wrap: parse_layout saw to it
    fail(ErrorKind::Container, qpack.layer_path(layer), " has ", size, " bytes, but ", kLayout, " says ",
         qpack.expert_count, " experts of ", stride, " bytes; ", kRemedy);
}

}  // namespace

const Section* ExpertLayout::find(const std::string& name) const {
  const auto found = std::ranges::find(sections, name, &Section::name);
  return found == sections.end() ? nullptr : &*found;
}

std::string Qpack::layer_path(int layer) const { return path + "/" + layer_file(layer); }

Qpack open_qpack(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path + "/" + kManifest, ignored)) refuse_folder(path);

  Qpack qpack;
  qpack.path = path;
  qpack.model_name = check_manifest(path);
  qpack.config_json = read_inside(path, kConfig);
  if (size_inside(path, kGeneration)) qpack.generation_json = read_text(path + "/" + kGeneration);
  for (const char* text : kTextFiles) size_inside(path, text);  // not read here, but by whoever makes text of tokens
  parse_layout(read_inside(path, kLayout), path + "/" + kLayout, qpack);
  for (int layer = 0; layer < qpack.layer_count; ++layer) check_layer_file(qpack, layer);
  required_size(path, kResident);
  qpack.resident = SafetensorsFile(path + "/" + kResident);
  return qpack;
}

}  // namespace swiftlet
