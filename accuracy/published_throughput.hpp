// Published training throughputs, held against predictions from models alone.
//
// Who: cli's accuracy, tests/reference, docs/accuracy.md's table. The rows are docs/data/published_throughput.csv,
// compiled in; docs/data/published_throughput.md names the sources and what a row leaves open. No constant is chosen
// for a row or a source. Pure and deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/models/model_config.hpp"
#include "core/settings/settings.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::accuracy {

struct PublishedThroughput {
  std::string source;  ///< "llm-foundry", "torchtitan", "fms-fsdp"
  std::string model;   ///< preset
  std::string machine;
  std::string attention;  ///< "cudnn" (the profile's), "flash-sdpa", "flash" (tokens packed), "triton"
  bool compiled = false;
  std::uint32_t network_gbps = 0;  ///< of a node; 0: the profile's own
  Settings settings;
  double tokens = 0;    ///< a second and GPU
  double peak_gib = 0;  ///< published peak of reserved memory; 0: none
};
[[nodiscard]] std::span<const PublishedThroughput> published_throughput();

/// "64 GPUs, batch 2 × 1, seq 2048, checkpoint blocks"
[[nodiscard]] std::string setup_of(const PublishedThroughput& row);

/// The machine of a row: the profile, the row's network, its attention kernels, and memory without a limit.
[[nodiscard]] Result<sim::MachineProfile> machine_of(const PublishedThroughput& row);
[[nodiscard]] Result<ModelConfig> model_of(const PublishedThroughput& row);

struct PublishedRow {
  const PublishedThroughput* row = nullptr;
  double predicted = 0;  ///< tokens a second and GPU
  double step_ms = 0;
  double exposed_communication_ms = 0;
  double host_ms = 0;
  Bytes peak_reserved = 0;
  [[nodiscard]] double error() const { return predicted / row->tokens - 1; }
};
[[nodiscard]] Result<PublishedRow> predict_published(const PublishedThroughput& row);

/// Every row, in the file's order, on up to `threads` threads.
[[nodiscard]] Result<std::vector<PublishedRow>> predict_all_published(std::uint32_t threads);

/// Mean of the absolute errors; of `source` alone unless it is empty.
[[nodiscard]] double mean_error(std::span<const PublishedRow> rows, std::string_view source = {});

}  // namespace foreshard::accuracy
