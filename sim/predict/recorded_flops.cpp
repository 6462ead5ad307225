#include "sim/predict/recorded_flops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/workload/embedding_table.hpp"

namespace foreshard::sim {
namespace {

/// What gives the MFU where a recording's kernels do not.
constexpr const char* kPlanTheModel = "plan the model itself (a preset, or its Hugging Face folder)";

/// Of all matrix products' time: what products beyond those of the weights (rotary angles) may take.
constexpr double kMaxOthers = 0.02;

/// A module of the name, between dots: "layers.0.attention.wq.weight" has "wq".
std::vector<std::string_view> modules_of(std::string_view name) {
  std::vector<std::string_view> out;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('.'), name.size());
    out.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return out;
}

/// Width of an attention's queries, heads × head dimension, by what precedes the module that makes them.
void add_queries(const Parameter& parameter, std::map<std::string, std::int64_t>& widths) {
  constexpr std::array<std::string_view, 4> kQueries{"wq", "q_proj", "query", "to_q"};
  const auto modules = modules_of(parameter.name);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const bool queries = std::find(kQueries.begin(), kQueries.end(), modules[i]) != kQueries.end();
    const bool thirds = modules[i] == "c_attn" && parameter.shape[1] % 3 == 0;  // GPT-2's Conv1D, [in, 3 × out]
    if (!queries && !thirds) continue;
    std::int64_t& width = widths[std::string(parameter.name.data(), modules[i].data())];
    width = std::max(width, thirds ? parameter.shape[1] / 3 : parameter.shape[0]);
  }
}

/// The model's part of the count.
struct Matrices {
  double elements = 0;  ///< of those that every token is multiplied by
  std::size_t count = 0;
  std::vector<std::vector<std::int64_t>> shapes;
  const Parameter* table = nullptr;             ///< the largest
  std::map<std::string, std::int64_t> queries;  ///< add_queries()
  std::string unknown;
};

Matrices matrices_of(const Workload& workload) {
  Matrices out;
  for (const Unit& unit : workload.units)
    for (const Parameter& parameter : unit.parameters) {
      if (!parameter.requires_grad)
        out.unknown = fmt::format("some parameters are frozen, so backward computes less: {}", kPlanTheModel);
      if (parameter.shape.size() > 2)
        out.unknown = fmt::format("{} is no matrix, how much of it each token passes is not known: {}", parameter.name,
                                  kPlanTheModel);
      if (!out.unknown.empty()) return out;
      if (parameter.shape.size() < 2) continue;
      if (is_embedding_table(parameter)) {
        if (out.table == nullptr || parameter.numel() > out.table->numel()) out.table = &parameter;
        continue;
      }
      out.elements += static_cast<double>(parameter.numel());
      ++out.count;
      out.shapes.push_back(parameter.shape);
      add_queries(parameter, out.queries);
    }
  return out;
}

/// What the last recorded step ran in forward.
struct Recorded {
  std::vector<double> products;  ///< their times, shortest first
  std::size_t attentions = 0;
};

Recorded recorded_forward(const Program& program) {
  Recorded out;
  bool backward = false;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::hook && op.hook == Hook::backward_begin) backward = true;
    if (op.kind == OpKind::hook && op.hook == Hook::backward_end) backward = false;
    if (op.kind != OpKind::kernel || backward) continue;
    const KernelClass of = op.kernel.kernel_class;
    if (of == KernelClass::attention) ++out.attentions;
    if (of == KernelClass::gemm || of == KernelClass::gemm_single_wave || of == KernelClass::gemm_streaming)
      out.products.push_back(static_cast<double>(op.kernel.work.count));
  }
  std::sort(out.products.begin(), out.products.end());
  return out;
}

/// Whether `count` of the products are the weights', and all others take next to nothing.
bool accounts_for(const Recorded& recorded, std::size_t count) {
  if (recorded.products.size() < count) return false;
  const auto others = recorded.products.begin() + static_cast<std::ptrdiff_t>(recorded.products.size() - count);
  const double all = std::accumulate(recorded.products.begin(), recorded.products.end(), 0.0);
  return std::accumulate(recorded.products.begin(), others, 0.0) <= kMaxOthers * all;
}

/// Whether the largest table is the head as well: no matrix has its shape, there is a product more than there are
/// matrices, and one of them takes as long as a head does.
bool has_tied_head(const Matrices& model, const Recorded& recorded, std::size_t microbatches) {
  if (model.table == nullptr || recorded.products.size() < (model.count + 1) * microbatches) return false;
  if (std::find(model.shapes.begin(), model.shapes.end(), model.table->shape) != model.shapes.end()) return false;
  const auto head = static_cast<double>(model.table->numel());
  const double all = std::accumulate(recorded.products.begin(), recorded.products.end(), 0.0);
  const double share = recorded.products.back() * static_cast<double>(microbatches) / all;
  return share >= head / (model.elements + head) / 2;
}

/// The dtype of its matrix products.
DType products_in(const Workload& workload, const Settings& settings) {
  if (settings.param_dtype) return *settings.param_dtype;
  for (const Unit& unit : workload.units)
    if (!unit.parameters.empty()) return unit.parameters.front().dtype;
  return DType::float32;
}

/// Why there is nothing to count from; empty: there is.
std::string missing(const Workload& workload, const Settings& settings) {
  if (!workload.recorded.empty())
    return "the recorded steps differ: record steps of one batch size and sequence length";
  if (!settings.batch || !settings.seq)
    return fmt::format("no {} is known: import it with an about file that gives {}",
                       settings.seq     ? "batch size"
                       : settings.batch ? "sequence length"
                                        : "batch size and sequence length",
                       settings.seq     ? "batch"
                       : settings.batch ? "seq"
                                        : "batch and seq");
  if (!workload.has_timing || workload.steps.empty())
    return "no kernels of eager steps were recorded: import it with a profiler trace of them (--trace)";
  if (workload.units.empty())
    return "the model's parameters are not known: import it with an about file that gives its units";
  if (products_in(workload, settings) == DType::float32)
    return fmt::format("whether products in float32 ran as TF32 is not recorded: {}", kPlanTheModel);
  return {};
}

}  // namespace

RecordedFlops recorded_flops(const Workload& workload, const Settings& settings) {
  RecordedFlops out;
  out.unknown = missing(workload, settings);
  if (!out.unknown.empty()) return out;
  Matrices model = matrices_of(workload);
  out.unknown = model.unknown;
  if (!out.unknown.empty()) return out;
  const Recorded recorded = recorded_forward(workload.steps.back());
  const std::size_t microbatches = settings.accumulate;
  const bool tied = has_tied_head(model, recorded, microbatches);
  if (tied) {
    model.elements += static_cast<double>(model.table->numel());
    ++model.count;
  }
  if (!accounts_for(recorded, model.count * microbatches)) {
    out.unknown = fmt::format("its forward has {} matrix products where the parameters' names give {}: {}",
                              recorded.products.size(), model.count * microbatches, kPlanTheModel);
    return out;
  }
  if (recorded.attentions != model.queries.size() * microbatches) {
    out.unknown = fmt::format("its forward has {} attentions where the parameters' names give {}: {}",
                              recorded.attentions, model.queries.size() * microbatches, kPlanTheModel);
    return out;
  }
  const double seq = *settings.seq;
  const double tokens = seq * *settings.batch * static_cast<double>(microbatches);
  double width = 0;
  for (const auto& [module, queries] : model.queries) width += static_cast<double>(queries);
  out.dtype = products_in(workload, settings);
  // A token meets half of the sequence, in two products of 2 FLOPs an element.
  out.flops = 3 * tokens * (2 * model.elements + 2 * seq * width);
  out.rests_on =
      fmt::format("{} weight matrices ({:.2f}e9 elements{}) and {} causal attentions, as many as recorded", model.count,
                  model.elements / 1e9, tied ? ", the head tied to the embedding" : "", model.queries.size());
  return out;
}

}  // namespace foreshard::sim
