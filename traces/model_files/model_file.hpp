// What a model file gives: the model in numbers, and what was odd about the file.
//
// Who: hf_config.hpp and safetensors.hpp make one, traces/workload_source hands it on. Plain data.
#pragma once

#include <string>
#include <vector>

#include "core/models/model_config.hpp"

namespace foreshard::traces {

struct ModelFile {
  ModelConfig model;
  std::vector<std::string> notes;     ///< how the file was understood, one sentence each; nothing is less certain by it
  std::vector<std::string> warnings;  ///< what the file asks for and a plan leaves out: it is not `valid` then
};

}  // namespace foreshard::traces
