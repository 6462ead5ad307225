#include "sim/predict/recorded_jitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/run/blocked_launch.hpp"

namespace foreshard::sim {
namespace {

/// One rank's ops of one step, by issue.
struct Sample {
  std::uint32_t rank = 0;
  std::vector<const DeviceOpRecord*> ops;
};

/// What makes ops of two samples comparable.
std::vector<std::tuple<StreamId, LabelId, DeviceOpRecord::Kind>> signature(const Sample& sample) {
  std::vector<std::tuple<StreamId, LabelId, DeviceOpRecord::Kind>> out;
  for (const DeviceOpRecord* op : sample.ops) out.emplace_back(op->stream, op->label, op->kind);
  return out;
}

std::vector<Sample> samples_of(const Run& run) {
  std::map<std::pair<std::uint32_t, std::int32_t>, Sample> samples;  // by rank and step
  const auto add = [&](std::uint32_t rank, std::int32_t step, const DeviceOpRecord& op) {
    Sample& sample = samples[{rank, step}];
    sample.rank = rank;
    sample.ops.push_back(&op);
  };
  for (const RankOpRecord& row : run.rank_ops)
    if (row.step >= 0) add(row.rank, row.step, row.op);
  if (run.rank_ops.empty())
    for (const StepRecord& step : run.steps)
      for (const DeviceOpRecord& op : run.device_ops)
        if (step.recording != Recording::snapshot && op.issue >= step.start && op.issue <= step.end)
          add(0, step.index, op);
  std::vector<Sample> out;
  for (auto& [place, sample] : samples) {
    std::stable_sort(sample.ops.begin(), sample.ops.end(),
                     [](const DeviceOpRecord* a, const DeviceOpRecord* b) { return a->issue < b->issue; });
    out.push_back(std::move(sample));
  }
  return out;
}

/// Those that issue the same ops, the most that do; of equally many the first.
std::vector<Sample> alike(const std::vector<Sample>& samples) {
  std::map<std::vector<std::tuple<StreamId, LabelId, DeviceOpRecord::Kind>>, std::vector<std::size_t>> kinds;
  std::vector<const std::vector<std::size_t>*> in_order;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto [kind, is_new] = kinds.try_emplace(signature(samples[i]));
    if (is_new) in_order.push_back(&kind->second);
    kind->second.push_back(i);
  }
  const auto most = std::max_element(in_order.begin(), in_order.end(),
                                     [](const auto* a, const auto* b) { return a->size() < b->size(); });
  std::vector<Sample> out;
  if (most == in_order.end()) return out;
  for (const std::size_t i : **most) out.push_back(samples[i]);
  return out;
}

/// By place: whether a collective runs beside the op.
std::vector<bool> beside_collectives(const Sample& sample) {
  std::vector<std::pair<Nanoseconds, Nanoseconds>> busy;  // disjoint, ascending
  std::vector<std::pair<Nanoseconds, Nanoseconds>> spans;
  for (const DeviceOpRecord* op : sample.ops)
    if (op->kind == DeviceOpRecord::Kind::collective) spans.emplace_back(op->start, op->end);
  std::sort(spans.begin(), spans.end());
  for (const auto& [start, end] : spans) {
    if (busy.empty() || start > busy.back().second) busy.emplace_back(start, end);
    busy.back().second = std::max(busy.back().second, end);
  }
  std::vector<bool> out;
  for (const DeviceOpRecord* op : sample.ops) {
    const auto behind = std::lower_bound(busy.begin(), busy.end(), op->start,
                                         [](const auto& span, Nanoseconds at) { return span.second <= at; });
    out.push_back(behind != busy.end() && behind->first < op->end);
  }
  return out;
}

/// One time of every sample, for each op that is looked at.
using Times = std::vector<std::vector<double>>;

Times kernel_times(const std::vector<Sample>& samples) {
  std::vector<std::vector<bool>> beside;
  for (const Sample& sample : samples) beside.push_back(beside_collectives(sample));
  Times out;
  for (std::size_t i = 0; i < samples[0].ops.size(); ++i) {
    const DeviceOpRecord& op = *samples[0].ops[i];
    if (op.kind == DeviceOpRecord::Kind::collective || op.stream != kComputeStream ||
        std::any_of(beside.begin(), beside.end(), [i](const std::vector<bool>& of) { return of[i]; }))
      continue;
    std::vector<double>& times = out.emplace_back();
    for (const Sample& sample : samples) times.push_back((sample.ops[i]->end - sample.ops[i]->start).us());
  }
  return out;
}

Times host_times(const std::vector<Sample>& samples) {
  Times out;
  for (std::size_t i = 0; i + 1 < samples[0].ops.size(); ++i) {
    std::vector<double> times;
    for (const Sample& sample : samples) {
      const Nanoseconds time = sample.ops[i + 1]->issue - sample.ops[i]->issue;
      if (time > kBlockedLaunch) break;
      times.push_back(time.us());
    }
    if (times.size() == samples.size()) out.push_back(std::move(times));
  }
  return out;
}

/// Of each op, and of the samples' factors.
struct Deviations {
  double ops = 0;
  double samples = 0;
};

Deviations deviations(const Times& times) {
  if (times.empty()) return {};
  std::vector<double> factors(times[0].size());
  const auto count = static_cast<double>(factors.size());
  double all = 0;
  for (const std::vector<double>& op : times)
    for (std::size_t s = 0; s < factors.size(); ++s) factors[s] += op[s];
  for (const double sum : factors) all += sum;
  if (all <= 0) return {};
  Deviations out;
  for (double& factor : factors) {
    factor *= count / all;
    out.samples += (factor - 1) * (factor - 1) / (count - 1);
  }
  out.samples = std::sqrt(out.samples);
  double variance = 0;
  double squares = 0;
  for (const std::vector<double>& op : times) {
    double mean = 0;
    for (std::size_t s = 0; s < factors.size(); ++s) mean += op[s] / factors[s] / count;
    for (std::size_t s = 0; s < factors.size(); ++s) variance += std::pow(op[s] / factors[s] - mean, 2) / (count - 1);
    squares += mean * mean;
  }
  out.ops = std::sqrt(variance / squares);
  return out;
}

Spread lognormal(double deviation) {
  // In hundredths of a percent, as it is written and can be given again.
  return {Spread::Kind::lognormal, std::min(std::round(deviation * 1e4) / 1e4, Spread::kMaxLognormal)};
}

}  // namespace

std::optional<RecordedJitter> recorded_jitter(const Run& run) {
  if (run.info.kind == RunKind::planned) return std::nullopt;
  const std::vector<Sample> all = samples_of(run);
  const std::vector<Sample> samples = alike(all);
  if (samples.size() < 2) return std::nullopt;
  const Times kernels = kernel_times(samples);
  const Times host = host_times(samples);
  const Deviations of_kernels = deviations(kernels);
  const Deviations of_host = deviations(host);
  RecordedJitter out;
  out.jitter.kernels = lognormal(of_kernels.ops);
  out.jitter.gpus = lognormal(of_kernels.samples);
  out.jitter.host = lognormal(of_host.ops);
  out.jitter.hosts = lognormal(of_host.samples);
  std::set<std::uint32_t> ranks;
  for (const Sample& sample : samples) ranks.insert(sample.rank);
  out.rests_on = fmt::format(
      "{} kernels that no collective runs beside and {} pieces of host work, in {} steps of {} rank{} that issue the "
      "same {} ops{}",
      kernels.size(), host.size(), samples.size(), ranks.size(), ranks.size() == 1 ? "" : "s", samples[0].ops.size(),
      samples.size() < all.size() ? fmt::format("; other steps, left out: {}", all.size() - samples.size()) : "");
  return out;
}

}  // namespace foreshard::sim
