#include "cli/gpu/gradient_files.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "core/base/dtype.hpp"
#include "core/base/json_io.hpp"

namespace foreshard::cli {

GradientFiles::GradientFiles(const std::string& folder, std::uint32_t rank, const Workload& workload)
    : stem_(fmt::format("{}/rank{}", folder, rank)) {
  std::error_code failed;  // a folder that could not be made shows in finish()
  std::filesystem::create_directories(folder, failed);
  numbers_.open(stem_ + ".bin", std::ios::binary | std::ios::trunc);
  for (const Unit& unit : workload.units)
    for (const Parameter& parameter : unit.parameters) names_.push_back(parameter.name);
}

void GradientFiles::add(std::int32_t step, const ShardedGradient& gradient, std::span<const char> bytes) {
  index_.push_back({{"step", step},
                    {"parameter", names_.at(gradient.parameter.value)},
                    {"dtype", name(gradient.dtype)},
                    {"first", gradient.first},
                    {"numel", gradient.numel},
                    {"offset", offset_}});
  numbers_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  offset_ += bytes.size();
}

Result<void> GradientFiles::finish() {
  numbers_.close();
  std::ofstream index(stem_ + ".json", std::ios::trunc);
  index << json_text(index_) << '\n';
  index.close();
  if (numbers_ && index) return {};
  return fail(ErrorKind::input, "the gradients could not be written", stem_ + ".bin", "is the disk full?");
}

}  // namespace foreshard::cli
