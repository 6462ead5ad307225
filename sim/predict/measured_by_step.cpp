#include "sim/predict/measured_by_step.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "sim/predict/host_scale.hpp"

namespace foreshard::sim {
namespace {

using Tokens = std::uint64_t;

/// The measured steps of each number of tokens.
using BySize = std::map<Tokens, std::vector<double>>;

BySize by_size(std::span<const double> steps, std::span<const Tokens> cycle, std::size_t from) {
  BySize out;
  for (std::size_t i = 0; i < steps.size(); ++i) out[cycle[(from + i) % cycle.size()]].push_back(steps[i]);
  return out;
}

/// More tokens always take longer.
bool in_order(const BySize& sizes) {
  double longest = 0;
  for (const auto& [tokens, steps] : sizes) {
    if (*std::min_element(steps.begin(), steps.end()) <= longest) return false;
    longest = *std::max_element(steps.begin(), steps.end());
  }
  return true;
}

double mean(const std::vector<double>& steps) {
  double sum = 0;
  for (const double ms : steps) sum += ms;
  return sum / static_cast<double>(steps.size());
}

}  // namespace

std::vector<double> measured_by_step(const Workload& workload) {
  if (!workload.measured || workload.recorded.empty() || !steps_repeat(workload)) return {};
  std::vector<Tokens> tokens;
  for (const RecordedStep& step : workload.recorded) tokens.push_back(Tokens{step.batch} * step.seq);
  if (std::find(tokens.begin(), tokens.end(), Tokens{0}) != tokens.end()) return {};
  const std::span<const Tokens> cycle = std::span(tokens).last(std::min<std::size_t>(workload.cycle, tokens.size()));
  const std::vector<double>& all = workload.measured->step_ms;
  const std::size_t steady = all.size() - std::min(Measured::kWarmUp, all.size());
  const std::span<const double> steps = std::span(all).last(steady / cycle.size() * cycle.size());
  if (steps.empty()) return {};
  std::vector<BySize> fitting;
  for (std::size_t from = 0; from < cycle.size(); ++from) {
    BySize sizes = by_size(steps, cycle, from);
    if (sizes.size() > 1 && in_order(sizes) && std::find(fitting.begin(), fitting.end(), sizes) == fitting.end())
      fitting.push_back(std::move(sizes));
  }
  if (fitting.size() != 1) return {};
  std::vector<double> out;
  for (const Tokens of : tokens) {
    const auto found = fitting.front().find(of);
    out.push_back(found == fitting.front().end() ? 0 : mean(found->second));
  }
  return out;
}

std::optional<double> measured_of(const Workload& workload, std::uint32_t batch, std::uint32_t seq) {
  const std::vector<double> measured = measured_by_step(workload);
  for (std::size_t k = 0; k < measured.size(); ++k)
    if (const RecordedStep& step = workload.recorded[k]; step.batch == batch && step.seq == seq && measured[k] > 0)
      return measured[k];
  return std::nullopt;
}

}  // namespace foreshard::sim
