#include "accuracy/published_throughput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "accuracy/data_fields.hpp"
#include "accuracy/published_throughput_data.hpp"
#include "core/base/check.hpp"
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::accuracy {
namespace {

constexpr std::uint32_t kGpusOfNode = 8;

/// Columns that are not settings are named here; the others go to set_setting().
void set_field(PublishedThroughput& row, std::string_view column, std::string_view value) {
  if (column == "source") {
    row.source = value;
  } else if (column == "model") {
    row.model = value;
  } else if (column == "machine") {
    row.machine = value;
  } else if (column == "gpus") {
    const auto gpus = number_field<std::uint32_t>(value);
    row.settings.gpus = std::min(gpus, kGpusOfNode);
    row.settings.nodes = gpus / row.settings.gpus;
  } else if (column == "attention") {
    row.attention = value;
  } else if (column == "compiled") {
    row.compiled = value == "true";
  } else if (column == "network_gbps") {
    row.network_gbps = number_field<std::uint32_t>(value);
  } else if (column == "peak_gib") {
    row.peak_gib = number_field<double>(value);
  } else if (column == "tokens_per_s_gpu") {
    row.tokens = number_field<double>(value);
  } else {
    const auto set = set_setting(row.settings, column, value);
    FORESHARD_CHECK(set.has_value(), "published_throughput.csv: a setting");
  }
}

std::vector<PublishedThroughput> parse_throughput(std::string_view csv) {
  std::vector<PublishedThroughput> rows;
  const std::string_view header = next_field(csv, '\n');
  while (!csv.empty()) {
    std::string_view line = next_field(csv, '\n');
    if (line.empty()) continue;
    PublishedThroughput row;
    row.settings.param_dtype = DType::bfloat16;
    std::string_view columns = header;
    while (!columns.empty()) {
      const std::string_view column = next_field(columns);
      set_field(row, column, next_field(line));
    }
    row.settings.accumulate_with_sync = row.settings.accumulate > 1;
    rows.push_back(std::move(row));
  }
  return rows;
}

/// FlashAttention 2 where the profile has cuDNN's (TargetGpu), with heads of 128: its repository's charts for sequences
/// of 16,384 on H100 (forward 370 TFLOP/s without a mask, forward and backward together 338). Its first version in
/// Triton is slower 1.3 to 1.5 times in forward and around 2 times in backward ("FlashAttention-2", Dao, 2023,
/// section 4.1).
void use_flash_attention(sim::MachineProfile& machine, bool triton) {
  constexpr double kHopperPeak = 989.4;
  constexpr double kForward = 370 / kHopperPeak;
  constexpr double kBackward = 327 / kHopperPeak;
  constexpr double kTritonForward = 1 / 1.4;
  constexpr double kTritonBackward = 1 / 2.0;
  const auto set = [&](sim::AttentionSpec& spec, double efficiency, double of_triton) {
    for (sim::Curve::Point& point : spec.efficiency.points) {
      if (machine.gpu().prefers_cudnn_attention()) point.value = efficiency;
      if (triton) point.value *= of_triton;
    }
  };
  set(machine.compute.attention_forward, kForward, kTritonForward);
  set(machine.compute.attention_backward, kBackward, kTritonBackward);
}

}  // namespace

std::span<const PublishedThroughput> published_throughput() {
  static const std::vector<PublishedThroughput> kRows = parse_throughput(kPublishedThroughput);
  return kRows;
}

std::string setup_of(const PublishedThroughput& row) {
  const Settings& s = row.settings;
  std::string out =
      fmt::format("{} GPUs, batch {} × {}, seq {}", s.world(), s.batch.value_or(1), s.accumulate, s.seq.value_or(0));
  if (s.replicate > 1) out += fmt::format(", replicate {}", s.replicate);
  if (s.reshard_after_forward.kind != Reshard::Kind::always) out += ", reshard " + name(s.reshard_after_forward);
  if (s.checkpoint != Checkpoint::none) out += fmt::format(", checkpoint {}", name(s.checkpoint));
  return out + (row.compiled ? ", compiled" : "");
}

Result<sim::MachineProfile> machine_of(const PublishedThroughput& row) {
  auto machine = sim::builtin_profile(row.machine);
  if (!machine) return machine;
  constexpr double kBits = 8;
  if (row.network_gbps > 0) machine->network.nic = row.network_gbps / kBits / machine->network.nics;
  if (row.attention != "cudnn") use_flash_attention(*machine, row.attention == "triton");
  machine->memory_total = Bytes{1} << 44;  // another software's memory: it decides nothing here
  return machine;
}

Result<ModelConfig> model_of(const PublishedThroughput& row) {
  auto model = preset(row.model);
  if (!model) return model;
  model->compiled = row.compiled;
  model->packs_tokens = row.attention == "flash";
  if (model->positions > 0) model->positions = row.settings.seq.value_or(model->default_seq);
  return model;
}

Result<PublishedRow> predict_published(const PublishedThroughput& row) {
  const auto machine = machine_of(row);
  FORESHARD_TRY(machine);
  const auto model = model_of(row);
  FORESHARD_TRY(model);
  const auto workload = generate(*model, row.settings, machine->host_calls, machine->gpu());
  FORESHARD_TRY(workload);
  sim::PredictRequest request;
  request.settings = workload->settings;
  const auto prediction = predict(*workload, *machine, request);
  FORESHARD_TRY(prediction);
  if (prediction->out_of_memory || prediction->deadlock || prediction->step_ms <= 0)
    return fail(ErrorKind::mismatch,
                fmt::format("{} on {} {}: no step time", row.model, row.settings.world(), row.machine));
  const double tokens =
      static_cast<double>(*workload->settings.batch) * *workload->settings.seq * workload->settings.accumulate;
  constexpr double kMsPerSecond = 1000;
  PublishedRow out;
  out.row = &row;
  out.step_ms = prediction->step_ms;
  out.predicted = tokens * kMsPerSecond / prediction->step_ms;
  out.exposed_communication_ms = prediction->exposed_communication_ms;
  out.host_ms = prediction->host_ms;
  out.peak_reserved = prediction->peaks.reserved;
  return out;
}

Result<std::vector<PublishedRow>> predict_all_published(std::uint32_t threads) {
  const auto rows = published_throughput();
  std::vector<std::optional<Result<PublishedRow>>> results(rows.size());
  sim::for_each(rows.size(), threads, [&](std::size_t i) { results[i] = predict_published(rows[i]); });
  std::vector<PublishedRow> out;
  for (auto& result : results) {
    if (!*result) return tl::unexpected((*result).error());
    out.push_back(**result);
  }
  return out;
}

double mean_error(std::span<const PublishedRow> rows, std::string_view source) {
  double sum = 0;
  double count = 0;
  for (const PublishedRow& row : rows) {
    if (!source.empty() && row.row->source != source) continue;
    sum += std::abs(row.error());
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace foreshard::accuracy
