#include "core/models/inductor_first_run.hpp"

#include <utility>

#include "core/workload/pytorch_costs.hpp"

namespace foreshard::model {
namespace {

// Seen in recordings on H200s, PyTorch 2.11.
constexpr auto kConfigurations = static_cast<std::uint32_t>(pytorch_costs::kInductorConfigurations.value);
constexpr auto kRuns = static_cast<std::uint32_t>(pytorch_costs::kInductorRuns.value);
constexpr std::uint32_t kFloatScalars = 11;  ///< of the attention patterns for float32 …
constexpr std::uint32_t kHalfScalars = 13;   ///< … and for 16-bit types

void scratch(Tape& tape, Bytes bytes, std::uint32_t times) {
  for (std::uint32_t i = 0; i < times; ++i) static_cast<void>(tape.workspace(bytes));
}

}  // namespace

void compile_first(Tape& tape) {
  if (!tape.first_time("torch.compile")) return;
  for (const auto& [count, dtype] : {std::pair{kFloatScalars, DType::float32}, {kHalfScalars, DType::bfloat16}}) {
    Tensors scalars;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Tensor given = tape.empty({}, dtype);
      scalars.push_back(tape.empty({}, dtype));
    }
    for (Tensor& scalar : scalars) scalar.reset();
  }
}

void tune_first(Tape& tape, std::string_view kernel, Bytes writes, Bytes mutated) {
  if (!tape.first_time(kernel, writes)) return;
  for (std::uint32_t i = 0; i < kConfigurations; ++i) {
    if (mutated > 0) scratch(tape, mutated, 1);
    const Tensor flushed = tape.workspace(tape.l2());  // which a benchmark writes over between runs
    if (mutated > 0) scratch(tape, mutated, kRuns);
  }
}

}  // namespace foreshard::model
