// A .qpack container: manifest, config, resident tensors and the files of packed experts.
// The format is described in docs/container.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "container/safetensors.h"

namespace swiftlet {

// One tensor inside an expert's blob.
struct Section {
  std::string name;  // "gate_proj.weight", "down_proj.scales", ...
  DType dtype;
  std::vector<int64_t> shape;
  uint64_t offset;  // from the start of the blob
  uint64_t bytes;
};

// How the experts of one layer lie in that layer's file.
struct ExpertLayout {
  uint64_t stride = 0;  // bytes from one expert to the next; a multiple of 16,384. 0: the layer has no experts
  std::vector<Section> sections;
  const Section* find(const std::string& name) const;
};

struct Qpack {
  std::string path;             // the container's folder
  std::string model_name;       // manifest "modelName"
  std::string config_json;      // text of config.json
  std::string generation_json;  // text of generation_config.json, or ""
  SafetensorsFile resident;     // model.safetensors
  int layer_count = 0;
  int expert_count = 0;
  std::vector<bool> linear_layers;    // layout "linearLayers": true where the mixer is a DeltaNet
  std::vector<ExpertLayout> layouts;  // one a layer
  uint64_t max_stride = 0;            // the largest stride: the size of a pool slot

  std::string layer_path(int layer) const;  // packed_experts/layer_NN.bin
};

// Opens a container and checks what can be checked without reading the weights: magic, version, the files of the
// manifest and their sizes, layout against file sizes, no path that leaves the folder.
// Throws ErrorKind::Container with the file, the key and the remedy.
Qpack open_qpack(const std::string& path);

}  // namespace swiftlet
