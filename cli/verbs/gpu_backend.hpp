// What the executable foreshard-gpu can do and foreshard cannot: be one rank of a run on a GPU.
//
// foreshard links no CUDA library, so that plan and everything else works anywhere; run and probe start foreshard-gpu,
// the same command line with gpu/ linked in, once a rank. foreshard-gpu's own source (gpu_backend.cpp) says that it is
// there by a static GpuRegistration.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/options/setting_options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"

namespace foreshard::cli {

struct RunOptions {
  SourceOptions source;
  SettingOptions setting_options;
  std::optional<Bytes> memory_limit;
  std::string output;
  std::string name;
  std::string gradients;  ///< folder to write gradients to; empty: none
  std::int32_t steps = 10;
  std::int32_t warmup = 3;
  double learning_rate = 1e-5;
  bool emulate = false;
  bool pace_host = false;
  bool record = true;
  bool force = false;
  bool json = false;
};

struct ProbeOptions {
  std::uint32_t gpus = 0;  ///< 0: all of this host
  std::string output;
  std::string name = "probed";
  std::string base = "h200";
  bool contention = true;
  bool force = false;
  bool json = false;
};

struct GpuBackend {
  /// This process's rank; the exit status.
  Result<int> (*run)(const RunOptions& options, Console& console) = nullptr;
  Result<int> (*probe)(const ProbeOptions& options, Console& console) = nullptr;
};

/// Null in foreshard.
[[nodiscard]] const GpuBackend* gpu_backend();

struct GpuRegistration {
  explicit GpuRegistration(const GpuBackend& backend);
};

}  // namespace foreshard::cli
