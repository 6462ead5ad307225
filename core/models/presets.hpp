// Models by name: those of the reference runs, the published Llama 3 sizes, those of published throughputs, and two of
// DeepSeek-V3's kind.
//
// Who: cli SOURCE, sweep, tests. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/models/model_config.hpp"

namespace foreshard {

/// `--dim` and `--layers`; torch-transformer's dropout, 0.1 by itself.
struct PresetOverrides {
  std::optional<std::uint64_t> dim;
  std::optional<std::uint32_t> layers;
  std::optional<double> dropout = {};
};

/// Names that preset() knows, in the order to show them.
[[nodiscard]] std::vector<std::string> preset_names();
[[nodiscard]] bool is_preset(std::string_view name);

/// The model of that name. Fails (usage): an unknown name, with the nearest known one; an override that fits no heads.
/// Another `dim` keeps the head dimension and the ratios of ffn and key heads to the width (llama), or the number of
/// heads (torch-transformer), so `dim` must divide; models of DeepSeek-V3's kind have no other.
[[nodiscard]] Result<ModelConfig> preset(std::string_view name, const PresetOverrides& overrides = {});

}  // namespace foreshard
