// Hugging Face models generated from their configuration alone, held against recordings of the library's own code:
// every request of setup and of each step, in order and size, which gradient is whose, every kernel by its class, the
// places of the hooks, and all four peaks of a plan of them, to the byte.
//
// The recordings are in the folder that the environment's FORESHARD_TRUTH names; without it the test is
// skipped. A run that is not there is passed over.
#include <algorithm>
#include <map>

#include "core/models/generate.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/reference/reference_runs.hpp"
#include "tests/truth_folder.hpp"

namespace foreshard::reference {
namespace {

/// The recorder's models (model_config of the about files).
ModelConfig decoder(ModelFamily family, std::uint32_t layers, std::uint64_t dim, std::uint64_t ffn, std::uint32_t heads,
                    std::uint32_t kv_heads, std::uint64_t vocab) {
  ModelConfig c;
  c.family = family;
  c.layers = layers;
  c.dim = dim;
  c.ffn = ffn;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = dim / heads;
  c.vocab = vocab;
  return c;
}

ModelConfig gpt2_xl() {
  ModelConfig c = decoder(ModelFamily::hf_gpt2, 48, 1600, 6400, 25, 25, 50257);
  c.positions = 1024;
  c.attention_bias = c.mlp_bias = true;
  return c;
}

struct Case {
  const char* run;
  ModelConfig model;
  bool same_memsets;  ///< cuBLAS' counters are set where the tape says, too
};

std::vector<Case> cases() {
  const ModelConfig qwen3 = decoder(ModelFamily::hf_qwen3, 28, 2048, 6144, 16, 8, 151936);
  return {{"hf_qwen3", qwen3, true},
          {"hf_qwen3_fwd1bwd1", qwen3, true},
          {"hf_gpt2", gpt2_xl(), false},
          {"hf_llama", decoder(ModelFamily::hf_llama, 16, 2048, 8192, 32, 8, 128256), true}};
}

/// One request: tensors are numbered in the order of their allocation.
struct Request {
  bool allocates;
  std::size_t tensor;
  Bytes bytes;
  std::uint32_t gradient_of;
  bool operator==(const Request&) const = default;
};

std::vector<Request> requests(const Program& program) {
  std::map<std::uint32_t, std::size_t> number;
  std::vector<Request> out;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::alloc) {
      const std::size_t next = number.size();
      number[op.tensor.value] = next;
      out.push_back({true, next, op.size.bytes, op.gradient_of.value});
    } else if (op.kind == OpKind::free) {
      const auto at = number.find(op.tensor.value);
      REQUIRE(at != number.end());
      out.push_back({false, at->second, 0, 0});
    }
  }
  return out;
}

void check_requests(const Program& generated, const Program& recorded) {
  const std::vector<Request> a = requests(generated);
  const std::vector<Request> b = requests(recorded);
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  INFO("first difference at " << left - a.begin() << " of " << a.size() << " generated, " << b.size() << " recorded");
  CHECK(a == b);
}

/// Kernels, copies and waits by class; the three classes of GEMMs are one (a device tells them apart).
std::vector<int> kernels(const Program& program, bool memsets) {
  constexpr int kCopy = 100;
  constexpr int kWait = 200;
  std::vector<int> out;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::copy) out.push_back(kCopy + static_cast<int>(op.copy.kind));
    if (op.kind == OpKind::synchronize) out.push_back(kWait);
    if (op.kind != OpKind::kernel) continue;
    const KernelClass c = op.kernel.kernel_class;
    if (c == KernelClass::memset && !memsets) continue;
    out.push_back(static_cast<int>(c <= KernelClass::gemm_streaming ? KernelClass::gemm : c));
  }
  return out;
}

std::vector<std::pair<Hook, std::uint32_t>> hooks(const Program& program) {
  std::vector<std::pair<Hook, std::uint32_t>> out;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::hook) out.emplace_back(op.hook, op.unit.value);
  return out;
}

TEST_CASE("Hugging Face models from their configuration against recordings", "[slow]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  ReferenceRuns runs(*folder);
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  for (const Case& c : cases()) {
    if (!runs.has(c.run)) continue;
    INFO(c.run);
    const Workload& recorded = runs.run(c.run).workload;
    const auto generated = generate(c.model, recorded.settings, machine->host_calls, recorded.sm_count);
    REQUIRE(generated);
    check_requests(generated->setup, recorded.setup);
    REQUIRE(generated->steps.size() == 2);
    for (std::size_t k = 0; k < recorded.steps.size(); ++k) {
      INFO("step " << k);
      check_requests(generated->steps[std::min<std::size_t>(k, 1)], recorded.steps[k]);
    }
    CHECK(hooks(generated->steps[1]) == hooks(recorded.steps.back()));
    CHECK(kernels(generated->steps[1], c.same_memsets) == kernels(recorded.steps.back(), c.same_memsets));

    const auto p = sim::predict(*generated, *machine, {recorded.settings, {}, 4});
    INFO((p ? "" : p.error().text()));
    REQUIRE(p);
    const MemoryPeaks measured = runs.measured(c.run).peaks;
    CHECK(p->peaks.requested == measured.requested);
    CHECK(p->peaks.allocated == measured.allocated);
    CHECK(p->peaks.active == measured.active);
    CHECK(p->peaks.reserved == measured.reserved);
  }
}

}  // namespace
}  // namespace foreshard::reference
