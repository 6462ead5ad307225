#include "sim/predict/adapted_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/adapt/adapt.hpp"
#include "core/kernel/kernel_cost.hpp"
#include "core/models/extra_gemms.hpp"
#include "core/settings/settings_names.hpp"
#include "core/workload/workload_names.hpp"
#include "sim/compute/prices.hpp"
#include "sim/predict/price_sections.hpp"
#include "sim/predict/reprice.hpp"

namespace foreshard::sim {
namespace {

/// What the rank's own source makes less certain, once for each source.
void warn_of_rank(std::uint32_t rank, const std::vector<std::string>& warnings, Prediction& p) {
  for (const std::string& warning : warnings) {
    p.warnings.push_back(fmt::format("rank {}: {}", rank, warning));
    p.not_valid.push_back(p.warnings.back());
    p.valid = false;
  }
}

/// The rank's own source as this plan needs it.
Result<Workload> adapted_source(const RankDifference& difference, const PredictRequest& request,
                                const MachineProfile& machine, Prediction& p) {
  const Workload& source = *difference.workload;
  if (!source.has_timing)
    return fail(ErrorKind::usage, fmt::format("rank {}'s source has no times", difference.rank), {},
                "import it with its profiler trace");
  Settings settings = request.settings;
  if (difference.seq > 0) settings.seq = difference.seq;
  auto other = adapt(source, settings);
  if (!other) {
    Error error = other.error();
    error.what = fmt::format("rank {}'s source: {}", difference.rank, error.what);
    return tl::unexpected(std::move(error));
  }
  warn_of_rank(difference.rank, other->time_unknown, p);
  Workload out = std::move(other->workload);
  const auto elsewhere = recorded_elsewhere(source, machine);
  if (elsewhere && elsewhere->profile) reprice(out, *elsewhere->profile, machine, request.settings.pytorch);
  if (exchanges_sections(source, request.settings))
    if (const auto priced = price_sections(out, request.settings, machine, p.host_scale.factor); !priced)
      warn_of_rank(difference.rank, {priced.error().what}, p);
  if (elsewhere && !elsewhere->profile)
    warn_of_rank(difference.rank, {fmt::format("recorded on {}, of which there is no profile", elsewhere->gpu)}, p);
  return out;
}

/// `adapted` with the rank's extra products; they are priced by `machine`, the kernels as the host's time for them.
Result<Workload> with_gemms(const Workload& adapted, const ExtraGemms& gemms, const MachineProfile& machine,
                            double host_scale, Nanoseconds& most) {
  constexpr const char* kOption = "--rank-gemm";
  if (!adapted.has_timing)
    return fail(ErrorKind::usage, "what the other ranks run has no times", kOption,
                "import it with its profiler trace, or plan from a model");
  if (!machine.host_calls_known)
    return fail(ErrorKind::usage,
                fmt::format("the machine profile {} does not say what a product costs the host", machine.name), kOption,
                "extend a profile that has /host/calls (docs/machines.md)");
  if (!from_model(adapted) && machine.host_calls.program != adapted.lowering)
    return fail(ErrorKind::usage,
                fmt::format("the host times of the machine profile {} are of {}'s program, not of the recording's",
                            machine.name, name(machine.host_calls.program)),
                kOption, "give --machine a profile of that program");
  Workload out = adapted;
  const double unscaled = host_scale > 0 ? 1 / host_scale : 1;
  const auto added = add_extra_gemms(out, gemms, machine.host_calls, unscaled, machine.gpu());
  if (!added) {
    Error error = added.error();
    error.where = kOption;
    return tl::unexpected(std::move(error));
  }
  const KernelWork one = gemm_cost(gemms.m, gemms.n, gemms.k, DType::bfloat16);
  most = std::max(most, price(machine, one).scaled(static_cast<double>(*added)));
  return out;
}

}  // namespace

Result<void> adapt_ranks(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                         AdaptedRanks& out, Prediction& p) {
  for (RankDifference& difference : out.differences.ranks) {
    const Workload* base = &adapted;
    if (difference.workload != nullptr) {
      const auto [at, is_new] = out.workloads.try_emplace({difference.workload, std::nullopt});
      if (is_new) {
        auto source = adapted_source(difference, request, machine, p);
        FORESHARD_TRY(source);
        at->second = std::move(*source);
      }
      base = difference.workload = &at->second;
    }
    if (!difference.gemms) continue;
    const auto [at, is_new] = out.workloads.try_emplace({base, difference.gemms});
    if (is_new) {
      auto made = with_gemms(*base, *difference.gemms, machine, p.host_scale.factor, out.gemms);
      FORESHARD_TRY(made);
      at->second = std::move(*made);
    }
    difference.workload = &at->second;
  }
  return {};
}

Result<Workload> adapted_to_length(const Workload& source, std::uint32_t seq, const PredictRequest& request,
                                   const MachineProfile& machine, Prediction& p) {
  RankDifference difference;
  difference.workload = &source;
  difference.seq = seq;
  return adapted_source(difference, request, machine, p);
}

void name_programs(const std::vector<RankDifference>& asked, std::vector<RankGroup>& groups) {
  for (RankGroup& group : groups) {
    const auto found = std::find_if(asked.begin(), asked.end(),
                                    [&](const RankDifference& difference) { return difference.rank == group.first; });
    if (found == asked.end()) continue;
    group.gemms = found->gemms;
    group.seq = found->seq;
    group.skips = found->skips;
    if (found->workload != nullptr && found->seq == 0)
      group.own_program = from_model(*found->workload) ? "the model " + found->workload->name : "its own recording";
  }
}

void count_lengths(const PredictRequest& request, const MachineProfile& machine, const AdaptedRanks& ranks,
                   Prediction& p) {
  const auto& asked = request.differences;
  if (!asked.lengths_differ() || request.settings.seq.value_or(0) == 0) return;
  const double world = request.settings.world();
  double tokens = world * *request.settings.seq, use = world * p.utilization.value;
  std::map<std::uint32_t, double> use_of;  // by length
  for (const RankDifference& rank : asked.ranks) {
    if (rank.seq == 0) continue;
    const auto [at, is_new] = use_of.try_emplace(rank.seq);
    if (is_new && p.utilization.value > 0) {
      Settings settings = request.settings;
      settings.seq = rank.seq;
      const Workload& own = ranks.workloads.at({rank.workload, std::nullopt});
      at->second = model_flops_utilization(own, settings, machine.peaks, p.step_ms).value;
    }
    tokens += static_cast<double>(rank.seq) - *request.settings.seq;
    use += at->second - p.utilization.value;
  }
  p.mean_seq = tokens / world;
  p.work *= p.mean_seq / *request.settings.seq;
  p.utilization.value = use / world;
}

void judge_gemms(const PredictionSpec& spec, const Workload& workload, Nanoseconds gemms, Prediction& p) {
  if (gemms.count == 0 || p.step_ms <= 0 || from_model(workload)) return;
  const double share = spec.model * std::min(1.0, gemms.ms() / p.step_ms);
  p.interval.rests_on.push_back({Basis::modelled, share, share});
  p.difference = std::hypot(p.difference, share);
}

}  // namespace foreshard::sim
