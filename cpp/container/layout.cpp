#include "container/layout.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "container/json.h"

namespace swiftlet {
namespace {

constexpr uint64_t kStrideAlignment = 16384;
constexpr const char* kRemedy = "the container is damaged: make it again with `swiftlet repack`";

// Far beyond any model, and small enough that a hostile file cannot make us allocate much.
constexpr uint64_t kMaxLayers = 4096;
constexpr uint64_t kMaxExperts = 1 << 20;
constexpr uint64_t kMaxSections = 64;

Section parse_section(const JsonRef& entry, uint64_t stride) {
  const JsonRef dtype_name = entry.at("dtype");
  const auto dtype = parse_dtype(dtype_name.as_string());
  if (!dtype) dtype_name.refuse("an element type that is known here, such as U32, BF16, F16, F32 or U8");

  Section section{entry.at("name").as_string(), *dtype, entry.at("shape").as_shape(),
                  entry.at("offset").as_uint(stride), entry.at("size").as_uint(stride)};
  const auto bytes = tensor_bytes(section.shape, *dtype);
  if (!bytes) entry.at("shape").complain("describes a tensor of more than 2^64 bytes");
  if (*bytes != section.bytes) entry.at("size").refuse(std::to_string(*bytes) + ", which dtype and shape take");
  if (!lies_within(section.offset, section.bytes, stride))
    entry.complain("reaches beyond the expertStride of " + std::to_string(stride));
  if (section.offset % size_of(*dtype) != 0)
    entry.at("offset").refuse("a multiple of " + std::to_string(size_of(*dtype)) + ", the size of its dtype");
  return section;
}

// `json` has expertStride and sections: the top level, or an entry of "layers".
ExpertLayout parse_expert_layout(const JsonRef& json, uint64_t expert_count) {
  ExpertLayout layout;
  const JsonRef stride = json.at("expertStride");
  layout.stride = stride.as_uint(INT64_MAX);
  if (layout.stride % kStrideAlignment != 0) stride.refuse("a multiple of " + std::to_string(kStrideAlignment));
  if (checked_product(layout.stride, expert_count).value_or(UINT64_MAX) > INT64_MAX)
    stride.refuse("so small that expertCount blobs fit in a file");
  if (layout.stride > 0 && expert_count == 0) stride.refuse("0 where expertCount is 0");

  const JsonRef sections = json.at("sections");
  const auto entries = sections.elements();
  if (entries.size() > kMaxSections) sections.complain("has more than " + std::to_string(kMaxSections) + " entries");
  if (layout.stride == 0 && !entries.empty()) sections.complain("must be empty where expertStride is 0");

  std::set<std::string> names;
  std::vector<Extent> extents;
  layout.sections.reserve(entries.size());  // the extents point at the names
  for (const JsonRef& entry : entries) {
    const Section& section = layout.sections.emplace_back(parse_section(entry, layout.stride));
    if (!names.insert(section.name).second) entry.at("name").complain("names a section that was there before");
    extents.push_back({section.offset, section.bytes, section.name});
  }
  if (const auto overlap = find_overlap(std::move(extents)))
    sections.complain("overlap: " + in_quotes(overlap->first) + " and " + in_quotes(overlap->second));
  return layout;
}

// A key of "layers": a layer's number, in decimal and without leading zeros.
std::optional<size_t> layer_number(const std::string& key, size_t layer_count) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc() || std::to_string(number) != key || number >= layer_count) return std::nullopt;
  return number;
}

}  // namespace

void parse_layout(std::string_view text, const std::string& file, Qpack& qpack) {
  const JsonFile json = parse_json(text, file, kRemedy);
  const JsonRef root(json);
  const uint64_t layers = root.at("layerCount").as_uint(kMaxLayers);
  if (layers == 0) root.at("layerCount").refuse("1 or more");
  const uint64_t experts = root.at("expertCount").as_uint(kMaxExperts);
  qpack.layer_count = static_cast<int>(layers);
  qpack.expert_count = static_cast<int>(experts);

  const JsonRef linear = root.at("linearLayers");
  const auto flags = linear.elements();
  if (flags.size() != layers)
    linear.complain("has " + std::to_string(flags.size()) + " entries, but layerCount is " + std::to_string(layers));
  qpack.linear_layers.clear();
  for (const JsonRef& flag : flags) qpack.linear_layers.push_back(flag.as_bool());

  qpack.layouts.assign(layers, parse_expert_layout(root, experts));
  if (const auto overrides = root.find("layers"))
    for (const auto& [key, entry] : overrides->members()) {
      const auto layer = layer_number(key, layers);
      if (!layer) entry.complain("is not the number of a layer; layerCount is " + std::to_string(layers));
      qpack.layouts[*layer] = parse_expert_layout(entry, experts);
    }

  qpack.max_stride = 0;
  for (const ExpertLayout& layout : qpack.layouts) qpack.max_stride = std::max(qpack.max_stride, layout.stride);
}

}  // namespace swiftlet
