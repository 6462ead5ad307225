// Hugging Face models planned from their configuration alone, held against what recordings of them asked for
// (configurations/README.md): every request of setup and of four steps by its digest, all peaks to the byte, and how
// often a step runs some kernels.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/models/generate.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "traces/model_files/hf_config.hpp"

namespace foreshard::reference {
namespace {

const std::string kFolder = "tests/reference/configurations/";
constexpr std::uint32_t kTokens = 2 * 2048;

using Rows = std::map<std::string, std::vector<std::string>>;

Rows rows_of(const std::string& name) {
  std::ifstream file(kFolder + name + ".csv");
  REQUIRE(file);
  Rows out;
  for (std::string line; std::getline(file, line);) {
    std::size_t at = line.find(',');
    std::vector<std::string>& values = out[line.substr(0, at)];
    while (at != std::string::npos) {
      const std::size_t next = line.find(',', at + 1);
      values.push_back(line.substr(at + 1, next == std::string::npos ? next : next - at - 1));
      at = next;
    }
  }
  return out;
}

std::uint64_t number(const std::string& text) {
  return std::stoull(text);
}

/// The recording's settings: the script's fully_shard of the root has no reshard_after_forward.
Settings recorded_settings() {
  Settings s;
  s.gpus = 4;
  s.batch = 2;
  s.seq = 2048;
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  s.root_reshard_explicit = false;
  return s;
}

struct Planned {
  ModelConfig model;
  sim::Prediction prediction;
};

Planned plan(const std::string& name) {
  const auto file = traces::read_hf_config(kFolder + name + ".json");
  INFO((file ? "" : file.error().text()));
  REQUIRE(file);
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const auto workload = generate(file->model, recorded_settings(), machine->host_calls, machine->sm_count);
  REQUIRE(workload);
  auto prediction = sim::predict(*workload, *machine, {recorded_settings(), {}, 4});
  REQUIRE(prediction);
  return {file->model, std::move(*prediction)};
}

/// FNV-1a of a line a request.
class Requests {
 public:
  void add(bool allocates, const BlockRecord& block) {
    ++count_;
    for (const char c : fmt::format("{} {} {}\n", allocates ? 'A' : 'F', block.requested,
                                    block.stream == StreamId{0} ? "compute" : "other"))
      digest_ = (digest_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  [[nodiscard]] std::vector<std::string> row() const {
    return {fmt::format("{}", count_), fmt::format("{:016x}", digest_)};
  }

 private:
  std::uint64_t count_ = 0;
  std::uint64_t digest_ = 0xcbf29ce484222325;
};

/// The tensors of a step whose end is the script's: its first (tokens), the loss, the logits.
std::vector<BlockId> of_the_script(const Run& run, std::int32_t step, Bytes logits) {
  std::vector<BlockId> out;
  const auto take_first = [&](auto&& is_one) {
    for (std::uint32_t i = 0; i < run.blocks.size(); ++i) {
      if (run.blocks[i].step != step || !is_one(run.blocks[i])) continue;
      out.push_back(BlockId{i});
      return;
    }
  };
  take_first([](const BlockRecord&) { return true; });
  take_first([](const BlockRecord& block) { return block.requested == itemsize(DType::float32); });
  take_first([&](const BlockRecord& block) {
    return block.requested == logits && block.category != MemoryCategory::unsharded_parameters;
  });
  return out;
}

std::vector<std::string> requests(const Run& run, std::int32_t step, Bytes logits) {
  const std::vector<BlockId> script = of_the_script(run, step, logits);
  Requests out;
  for (const AllocatorRecord& event : run.allocator) {
    const bool allocates = event.action == AllocatorAction::alloc;
    if (!allocates && event.action != AllocatorAction::free_requested) continue;
    const BlockRecord& block = run.blocks[event.block.value];
    if (block.step != step) continue;
    if (allocates || (step >= 0 && std::find(script.begin(), script.end(), event.block) == script.end()))
      out.add(allocates, block);
  }
  return out.row();
}

/// Rows of kernels: those that are neither "setup" nor a step's.
std::map<std::string, std::uint64_t> recorded_kernels(const Rows& rows) {
  std::map<std::string, std::uint64_t> out;
  for (const auto& [row, cells] : rows)
    if (row != "setup" && row.rfind("step ", 0) != 0) out[row] = number(cells[0]);
  return out;
}

/// How often the last step runs what a row names.
std::map<std::string, std::uint64_t> kernels(const Run& run) {
  const std::map<std::string, std::vector<std::string_view>> labels{
      {"attention", {"aten::_scaled_dot_product_cudnn_attention"}},
      {"attention backward", {"aten::_scaled_dot_product_cudnn_attention_backward"}},
      {"fills by a mask", {"aten::masked_fill_"}},
      {"grouped arguments", {"prepare_grouped_gemm_data"}},
      {"grouped products", {"aten::_grouped_mm"}},
      {"radix sort passes", {"cub::DeviceRadixSort onesweep"}},
      {"rows added", {"indexing_backward_kernel"}},
      {"rows gathered", {"aten::index", "aten::embedding"}},
      {"top-k", {"aten::topk"}},
  };
  std::map<std::string, std::uint64_t> out;
  for (const DeviceOpRecord& op : run.device_ops) {
    if (op.issue < run.steps.back().start) continue;
    if (op.kind == DeviceOpRecord::Kind::copy) ++out["copies"];
    if (op.kind != DeviceOpRecord::Kind::kernel) continue;
    for (const auto& [row, names] : labels)
      if (std::find(names.begin(), names.end(), run.labels.text(op.label)) != names.end()) ++out[row];
  }
  return out;
}

TEST_CASE("models are planned from their configuration as they were recorded") {
  for (const std::string name : {"deepseek_5", "qwen3_moe_6", "moonlight_6", "mistral_8"}) {
    CAPTURE(name);
    Rows rows = rows_of(name);
    const Planned planned = plan(name);
    const Run& run = planned.prediction.run;
    const Bytes logits = kTokens * planned.model.vocab * itemsize(DType::bfloat16);
    CHECK(requests(run, -1, logits) == rows["setup"]);
    REQUIRE(run.steps.size() == 4);
    for (const StepRecord& step : run.steps) {
      const std::vector<std::string>& row = rows[fmt::format("step {}", step.index)];
      CAPTURE(step.index);
      REQUIRE(row.size() == 8);
      CHECK(requests(run, step.index, logits) == std::vector<std::string>(row.begin(), row.begin() + 2));
      CHECK(step.peaks.requested == number(row[2]) + number(row[6]));
      CHECK(step.peaks.allocated == number(row[3]) + number(row[7]));
      CHECK(step.peaks.active == number(row[4]) + number(row[7]));
      CHECK(step.peaks.reserved == number(row[5]));
    }
    CHECK(kernels(run) == recorded_kernels(rows));
  }
}

}  // namespace
}  // namespace foreshard::reference
