#include "core/models/inductor_first_run.hpp"

namespace foreshard::model {
namespace {

// Seen in recordings on H200s, PyTorch 2.11.
constexpr std::uint32_t kConfigurations = 2;
constexpr std::uint32_t kRuns = 105;         ///< of a configuration: warm-up, estimate and repetitions
constexpr Bytes kFlushed = 60 * kMiB;        ///< an H200's L2, which a benchmark writes over between runs
constexpr std::uint32_t kFloatScalars = 11;  ///< of the attention patterns for float32 …
constexpr std::uint32_t kHalfScalars = 13;   ///< … and for 16-bit types

}  // namespace

void InductorFirstRun::scratch(Bytes bytes, std::uint32_t times) {
  for (std::uint32_t i = 0; i < times; ++i) static_cast<void>(tape_.workspace(bytes));
}

void InductorFirstRun::compile() {
  if (!compiles_ || compiled_) return;
  compiled_ = true;
  for (const auto& [count, dtype] : {std::pair{kFloatScalars, DType::float32}, {kHalfScalars, DType::bfloat16}}) {
    Tensors scalars;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Tensor given = tape_.empty({}, dtype);
      scalars.push_back(tape_.empty({}, dtype));
    }
    for (Tensor& scalar : scalars) scalar.reset();
  }
}

void InductorFirstRun::tune(std::string_view kernel, Bytes writes, Bytes mutated) {
  if (!compiles_ || !tuned_.insert({std::string(kernel), writes}).second) return;
  for (std::uint32_t i = 0; i < kConfigurations; ++i) {
    if (mutated > 0) scratch(mutated, 1);
    const Tensor flushed = tape_.workspace(kFlushed);
    if (mutated > 0) scratch(mutated, kRuns);
  }
}

}  // namespace foreshard::model
