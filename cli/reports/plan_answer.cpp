#include "cli/reports/plan_answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include "cli/reports/beside_report.hpp"
#include "cli/reports/flapping_report.hpp"
#include "cli/reports/job_end.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/reports/remedy_json.hpp"
#include "cli/reports/trial_report.hpp"
#include "cli/reports/upgrade_report.hpp"
#include "cli/terminal/output.hpp"
#include "core/base/add_up.hpp"
#include "core/base/units.hpp"
#include "core/run/block_names.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/steady_step.hpp"
#include "core/settings/settings_table.hpp"
#include "core/straggler/straggler_text.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/machine/profile.hpp"
#include "sim/network/background_load.hpp"
#include "sim/predict/keeps_up.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::cli {
namespace {

/// Exposed communication of more than this share of the step says what most of it is.
constexpr double kWorthNaming = 0.02;

/// Percent; 0 of nothing.
double share_of(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

/// Where record_stream makes the peak follow the host's speed: between what.
std::string host_range_words(const sim::Prediction& p) {
  if (p.least_peaks.reserved == p.most_peaks.reserved) return {};
  return fmt::format(" ({} to {} with the host's speed{})", format_bytes(p.least_peaks.reserved),
                     format_bytes(p.most_peaks.reserved), p.may_run_out_of_memory ? ", or out of memory" : "");
}

/// ", if it is an h200": what "fits" depends on where nobody has said which machine it is; a limit that was asked for
/// holds on any.
std::string if_machine(const sim::Prediction& p, bool assumed) {
  if (!assumed) return {};
  const auto machine = sim::builtin_profile(p.run.info.machine);
  if (!machine || p.memory_capacity < sim::memory_options(*machine).capacity) return {};
  return ", if it is an " + p.run.info.machine;
}

/// "out of memory in step 0, forward, norm: 2 GiB asked of the GPU, 1 GiB free of 14 GiB".
std::string out_of_memory_words(const sim::Prediction& p) {
  const OutOfMemory& oom = *p.out_of_memory;
  return fmt::format("{}out of memory in {}: {} asked of the GPU, {} free of {}",
                     p.told_rank > 0 ? fmt::format("rank {} is ", p.told_rank) : std::string(),
                     text_of(failed_place(p.run)), format_bytes(oom.tried), format_bytes(oom.device_free),
                     format_bytes(p.memory_capacity));
}

/// Of a job whose ranks draw lengths, and that runs out of memory so, or with the longest samples alone.
std::string drawn_failure_line(const sim::Prediction& p, const sim::DrawnMemory& drawn, bool assumed) {
  const std::string longest =
      fmt::format("with samples of {} tokens alone {}", p.longest_drawn,
                  p.out_of_memory ? out_of_memory_words(p)
                                  : fmt::format("{}{} of {} reserved", format_bytes(largest_peaks(p).reserved),
                                                host_range_words(p), format_bytes(p.memory_capacity)));
  if (drawn.out_of_memory == 0)
    return fmt::format("does not fit{}: {}; none of {} processes runs out of memory in {} steps whose lengths vary",
                       if_machine(p, assumed), longest, drawn.processes, drawn.steps);
  return fmt::format(
      "does not fit{}: {} of {} processes run{} out of memory in {} steps whose lengths vary (seeds {} to {}; "
      "`foreshard "
      "forecast` of the same histogram says when); {}",
      if_machine(p, assumed), drawn.out_of_memory, drawn.processes, drawn.out_of_memory == 1 ? "s" : "", drawn.steps,
      drawn.seed, drawn.seed + drawn.processes - 1, longest);
}

/// Of a job whose ranks draw lengths: what its processes came to reserve.
std::string drawn_memory_line(const sim::Prediction& p, const sim::DrawnMemory& drawn, bool assumed) {
  if (p.out_of_memory || p.lengths_run_out()) return drawn_failure_line(p, drawn, assumed);
  const Bytes alone = largest_peaks(p).reserved;
  const Bytes most = std::max(drawn.most, alone);
  const std::string range = drawn.least == drawn.most
                                ? format_bytes(drawn.most)
                                : fmt::format("{} to {}", format_bytes(drawn.least), format_bytes(drawn.most));
  const Bytes left = p.memory_capacity > most ? p.memory_capacity - most : 0;
  const std::string retries =
      drawn.num_alloc_retries == 0
          ? std::string()
          : fmt::format("; only with {} in which the allocator gave cached segments back and asked again",
                        drawn.num_alloc_retries == 1 ? "a retry" : fmt::format("{} retries", drawn.num_alloc_retries));
  return fmt::format(
      "{}{}: {} of {} reserved in {} steps whose lengths vary, in {} processes; with samples of {} tokens alone {}{}; "
      "{} ({:.0f} %) left{}",
      p.may_run_out_of_memory ? "may not fit" : "fits", if_machine(p, assumed), range, format_bytes(p.memory_capacity),
      drawn.steps, drawn.processes, p.longest_drawn, format_bytes(alone), host_range_words(p),
      format_bytes(printed_difference(p.memory_capacity, most)),
      share_of(static_cast<double>(left), static_cast<double>(p.memory_capacity)), retries);
}

/// What would keep its processes alive.
std::string drawn_fit_line(const sim::DrawnMemory& drawn) {
  if (!drawn.fit) return "none of the changes that were simulated on these lengths makes it fit";
  const std::int64_t retries = drawn.fit->num_alloc_retries;
  return fmt::format("{} would fit{}: at most {} reserved in these {} steps of {} processes", drawn.fit->setting,
                     retries > 0 ? fmt::format(", only with {}", counted(retries, "retry", "retries")) : std::string(),
                     format_bytes(drawn.fit->most), drawn.steps, drawn.processes);
}

/// ", which take 32.10 ms of it", of a cycle "a step"; empty where they take nothing.
std::string retries_words(const sim::Prediction& p) {
  if (p.step_num_alloc_retries == 0 || p.retries_ms <= 0) return {};
  return fmt::format(", which take{} {} {}", p.step_num_alloc_retries == 1 ? "s" : "", milliseconds(p.retries_ms),
                     p.cycle > 1 ? "a step" : "of it");
}

/// Whether a longer run is another answer than the steps that are told: it reserves more, meets the limit or does not
/// come to its end.
bool differs_later(const sim::Prediction& p) {
  if (!p.settled) return false;
  return runs_out_later(p) || p.settled->num_alloc_retries > 0 || most_reserved(p) > largest_peaks(p).reserved;
}

/// What a longer run pays where it meets the limit: "; 12 retries in steps 6 to 63 make the mean step 35.65 ms".
std::string limit_words(const sim::SettledMemory& settled) {
  if (settled.num_alloc_retries == 0) return settled.grows ? "; it still grows then" : "";
  const std::string retries = counted(settled.num_alloc_retries, "retry", "retries");
  const std::int32_t last = settled.first_retry + settled.steps - 1;
  if (settled.step_time.count == 0) return fmt::format("; {} in steps {} to {}", retries, settled.first_retry, last);
  return fmt::format("; {} in steps {} to {} make{} the mean step {}", retries, settled.first_retry, last,
                     settled.num_alloc_retries == 1 ? "s" : "", milliseconds(settled.step_time.ms()));
}

/// Of memory that grows behind the steps that are told, as record_stream's does.
std::string longer_run_line(const sim::Prediction& p, bool assumed) {
  const sim::SettledMemory& settled = *p.settled;
  const std::string told =
      fmt::format("; the steps told here reserve {}{}", format_bytes(largest_peaks(p).reserved), host_range_words(p));
  if (settled.out_of_memory)
    return fmt::format("does not fit{}: step {} of a longer run is out of memory, with {} of {} reserved until then{}",
                       if_machine(p, assumed), settled.step, format_bytes(settled.reserved),
                       format_bytes(p.memory_capacity), told);
  const Bytes left = free_at_peak(p);
  return fmt::format("{}{}: comes to {} of {} reserved (first in step {}), {} ({:.0f} %) left{}{}",
                     p.may_run_out_of_memory ? "may not fit" : "fits", if_machine(p, assumed),
                     format_bytes(most_reserved(p)), format_bytes(p.memory_capacity), settled.step,
                     format_bytes(printed_difference(p.memory_capacity, p.memory_capacity - left)),
                     share_of(static_cast<double>(left), static_cast<double>(p.memory_capacity)), limit_words(settled),
                     told);
}

std::string memory_line(const sim::Prediction& p, bool assumed) {
  if (p.drawn_memory) return drawn_memory_line(p, *p.drawn_memory, assumed);
  if (p.out_of_memory) return fmt::format("does not fit{}: {}", if_machine(p, assumed), out_of_memory_words(p));
  if (differs_later(p)) return longer_run_line(p, assumed);
  const Bytes left = free_at_peak(p);
  std::string line =
      fmt::format("{}{}: {}{} of {} reserved at the peak{}, {} ({:.0f} %) left",
                  p.may_run_out_of_memory ? "may not fit" : "fits", if_machine(p, assumed),
                  format_bytes(largest_peaks(p).reserved), host_range_words(p), format_bytes(p.memory_capacity),
                  p.mean_seq > 0        ? fmt::format(" of rank {}, which needs most", p.told_rank)
                  : p.longest_drawn > 0 ? fmt::format(" of the longest samples, {} tokens", p.longest_drawn)
                                        : std::string(),
                  format_bytes(printed_difference(p.memory_capacity, p.memory_capacity - left)),
                  share_of(static_cast<double>(left), static_cast<double>(p.memory_capacity)));
  if (const auto* machine = sim::find_builtin_profile(p.run.info.machine);
      machine != nullptr && p.memory_capacity == sim::memory_options(*machine).capacity && left < machine->memory_other)
    line += fmt::format("; {} are taken for CUDA's context and NCCL beside it, which is assumed",
                        format_bytes(machine->memory_other));
  if (p.num_alloc_retries > 0)
    line += fmt::format(
        "; only with {} in which the allocator gave cached segments back and asked again{}",
        p.num_alloc_retries == 1 ? "a retry" : fmt::format("{} retries", p.num_alloc_retries),
        p.has_time ? fmt::format(", {} of them in the steady {}{}",
                                 p.step_num_alloc_retries == 0 ? "none" : std::to_string(p.step_num_alloc_retries),
                                 p.cycle > 1 ? "cycle" : "step", retries_words(p))
                   : std::string());
  return line;
}

/// Where collectives run otherwise than asked for: why.
std::string not_as_asked_words(const sim::Prediction& p) {
  const std::vector<std::string> reasons = sim::not_as_asked(p);
  return reasons.empty() ? std::string() : fmt::format(" ({})", fmt::join(reasons, "; "));
}

bool recorded(const sim::Prediction& p) {
  return p.host == sim::HostConfidence::recorded || p.host == sim::HostConfidence::elsewhere;
}

std::string shown_value(const std::string& value) {
  return value == "null" ? "none" : option_value(value);
}

/// Settings that `to` has otherwise than `from`, of which `said` stand elsewhere: "forward_prefetch 1 -> 2", or of a
/// model, whose own are PyTorch's defaults, "forward_prefetch 2".
std::string settings_words(const Settings& from, const Settings& to, bool of_model,
                           const std::set<std::string_view>& said) {
  const auto before = setting_options(from);
  const auto after = setting_options(to);
  const std::span<const SettingOption> table = setting_table();  // in the order of setting_options()
  std::vector<std::string> words;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto& [key, value] = after[i];
    if (before[i].second == value || said.contains(key)) continue;
    if (!of_model)
      words.push_back(fmt::format("{} {} -> {}", key, shown_value(before[i].second), shown_value(value)));
    else
      words.push_back(table[i].form == SettingForm::json ? key : fmt::format("{} {}", key, option_value(value)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// What of a model's plan is not PyTorch's default: "with --compile, cuda_graph 3".
std::string model_words(const Settings& settings, const PlanBasis& basis) {
  const std::string chosen = settings_words({}, settings, true,
                                            {"gpus", "nodes", "tensor_parallel", "expert_parallel", "router_imbalance",
                                             "batch", "seq", "param_dtype", "reduce_dtype"});
  if (basis.model_options.empty() && chosen.empty()) return {};
  return fmt::format("; with {}{}{}", basis.model_options, basis.model_options.empty() || chosen.empty() ? "" : ", ",
                     chosen);
}

/// "4 × 2048": of a recorded step; empty: the recording does not show it.
std::string recorded_size(const RecordedStep& step) {
  return step.batch > 0 && step.seq > 0 ? fmt::format("{} × {}", step.batch, step.seq) : std::string();
}

/// Each size once, in the order of the steps: "4 × 2048, 4 × 1536 and 4 × 1024 tokens a GPU", or of `whose` they are.
std::string recorded_sizes(std::span<const sim::PredictedStep> steps, const std::string& whose) {
  std::vector<std::string> sizes;
  bool unknown = false;
  for (const sim::PredictedStep& step : steps) {
    const std::string size = recorded_size(step.recorded);
    unknown |= size.empty();
    if (!size.empty() && std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  if (!sizes.empty()) sizes.back() += " tokens " + whose;
  if (unknown) sizes.emplace_back("a size that is not recorded");
  if (sizes.size() < 2) return sizes.empty() ? std::string() : sizes.front();
  const std::string last = std::move(sizes.back());
  sizes.pop_back();
  return fmt::format("{} and {}", fmt::join(sizes, ", "), last);
}

/// Of a recording whose steps are not of one size: which of them the time is of, and that the others differ. Empty: all
/// are of the settings' size.
std::string steps_words(const sim::Prediction& p, const std::string& whose) {
  const std::span<const sim::PredictedStep> all(p.steps);
  const auto differs = [&](const sim::PredictedStep& step) {
    return step.recorded.batch != all.front().recorded.batch || step.recorded.seq != all.front().recorded.seq;
  };
  if (std::none_of(all.begin(), all.end(), differs)) return {};
  const SteadyCycle mean = steady_cycle(all.size(), p.cycle);
  const std::string planned = recorded_sizes(all.subspan(mean.first(), mean.count), whose);
  if (mean.count > 1)
    return fmt::format("recorded steps {} to {}, whose mean it is, of {}, ", mean.first(), mean.last, planned);
  return fmt::format("recorded step {}, of {} (recorded steps differ: {}), ", mean.last, planned,
                     recorded_sizes(all, whose));
}

/// What the step is of.
std::string program_line(const sim::Prediction& p, const PlanBasis& basis) {
  const Settings& s = p.run.settings;
  const auto dtype = [](const std::optional<DType>& d, const char* none) { return d ? std::string(name(*d)) : none; };
  const std::string whose =
      (s.tensor_parallel > 1 ? fmt::format("for each {} tensor-parallel GPUs", s.tensor_parallel) : "a GPU") +
      (s.accumulate > 1 ? " and microbatch" : "");
  std::string size = steps_words(p, whose);
  const bool differ = !size.empty();
  if (differ) {
    // Their sizes stand in place of the settings'.
  } else if (s.batch && s.seq.value_or(1) > 1)
    size = fmt::format("{} × {} tokens", *s.batch, *s.seq);
  else if (s.batch)
    size = fmt::format("{} samples", *s.batch);
  if (!size.empty() && !differ) size += fmt::format(" {}, ", whose);
  if (p.mean_seq > 0) size += fmt::format("{:.6g} a sample in the mean of the ranks, ", p.mean_seq);
  std::string line = fmt::format(
      "of {}{} GPU{}{}{}, param_dtype {}, reduce_dtype {}", size, std::uint64_t{s.gpus} * s.nodes,
      std::uint64_t{s.gpus} * s.nodes == 1 ? "" : "s",
      p.run.info.machine.empty() ? ""
                                 : fmt::format(" ({}{})", p.run.info.machine, basis.machine_assumed ? ", assumed" : ""),
      s.nodes > 1 && !basis.network.empty() ? fmt::format(" on {} nodes with {}", s.nodes, basis.network)
                                            : std::string(),
      dtype(s.param_dtype, "none (the parameters' own)"), dtype(s.reduce_dtype, "none (as computed)"));
  if (!recorded(p) || basis.source == nullptr) return line + model_words(s, basis) + not_as_asked_words(p);
  const std::string changes = settings_words(*basis.source, s, false, {});
  return line + (changes.empty() ? "; settings: those of the source" : "; changed: " + changes) + not_as_asked_words(p);
}

}  // namespace

std::string experts_line(const sim::Prediction& p) {
  const Settings& s = p.run.settings;
  std::string line = fmt::format("experts over {} ranks (expert_parallel)", s.expert_parallel);
  if (s.router_imbalance > 1)
    line += fmt::format(
        ", router_imbalance {}: memory and times are those of the rank with the most tokens, {} times the mean; other "
        "ranks have less",
        s.router_imbalance, s.router_imbalance);
  else
    line += recorded(p) ? ", routing as recorded" : ", balanced routing: all ranks have as many tokens";
  if (p.has_time)
    line += fmt::format("; exposed all-to-all {:.2f} ms ({:.1f} % of the step)", p.exposed_all_to_all_ms,
                        share_of(p.exposed_all_to_all_ms, p.step_ms));
  if (p.split_size_waits_ms)
    line += fmt::format(", the host's waits for split sizes {:.2f} ms", *p.split_size_waits_ms);
  return line;
}

namespace {

/// What the step is bound by, with what says so: of links how long they are busy, of a host that nothing was measured
/// of how much slower it may be for another bound to hold.
std::string bound_words(const sim::Prediction& p) {
  std::string out = bound_word(p);
  if (p.retries_ms > sim::kShownMs)
    out +=
        fmt::format(" but for what {} ({:.2f} ms)",
                    p.step_num_alloc_retries > 0 ? "its retries take" : "goes back to the driver takes", p.retries_ms);
  if (p.bound_by() == sim::BoundBy::ranks) return out;
  if (p.bound_by() == sim::BoundBy::links)
    out += fmt::format(" (collectives run for {:.0f} % of it)", share_of(p.communication_ms, p.step_ms));
  if (p.host_bound && p.bound_by() != sim::BoundBy::host)
    out += fmt::format(", though the host issues hardly faster ({:.2f} ms)", p.host_ms);
  if (p.host_may_bind)
    out += fmt::format(
        " unless the host, which nothing was measured of, issues {}more slowly than the profile's ({:.2f} ms)",
        p.host_binds_from ? fmt::format("{:.0f} % ", 100 * (*p.host_binds_from - 1)) : std::string(), p.host_ms);
  const bool host = p.bound_by() == sim::BoundBy::host;
  if (p.split_size_waits_ms && (p.host_may_bind || host) && *p.split_size_waits_ms > sim::kShownMs)
    out += fmt::format(" ({}it waits for split sizes of all-to-alls, which costs {:.2f} ms)",
                       host ? fmt::format("with a host that costs nothing {:.2f} ms a step; ", p.gpu_step_ms) : "",
                       *p.split_size_waits_ms);
  return out;
}

/// Of a recording whose ranks were given unlike work, what of it the plan has.
std::string shapes_line(const sim::Prediction& p) {
  if (p.rank_shapes.empty()) return {};
  const std::string words = rank_shapes_words(p.rank_shapes);
  if (p.counts_ranks)
    return fmt::format(
        "{}: the step and its memory are those of most tokens, which the others wait for; tokens/s and "
        "MFU are the ranks' mean",
        words);
  return fmt::format("in the recording {}: this is a job all of whose ranks have the imported one's", words);
}

std::string time_line(const sim::Prediction& p, const PlanTime& time) {
  std::string line = fmt::format("{:.2f} ms a step{} {}", p.step_ms,
                                 p.cycle > 1 ? fmt::format(", the mean of {},", p.cycle) : std::string(),
                                 interval_words(p.interval.low_ms, p.interval.high_ms));
  if (p.keeps_up >= 0)
    line += fmt::format(" {} ({:.2f} ms measured{})", sim::keeps_up_words(p), p.host_scale.measured_ms,
                        p.with_more.empty() ? ", with it late" : "");
  if (const double rate = sim::work_per_second(p.work, p.step_ms); rate > 0)
    line += fmt::format(", {:.0f} {}", rate, rate_unit(p.run.settings));
  if (p.utilization.value > 0) line += fmt::format(", MFU {:.0f} %", 100 * p.utilization.value);
  if (p.utilization.value <= 0 && !p.utilization.unknown.empty()) line += ", MFU not known (--detail says why)";
  const std::vector<double> shares =
      add_up({share_of(p.compute_ms, p.step_ms), share_of(p.exposed_communication_ms, p.step_ms),
              share_of(p.idle_ms, p.step_ms)},
             100, 0);
  line += fmt::format("; {}: {:.0f} % compute, {:.0f} % exposed communication, {:.0f} % neither", bound_words(p),
                      shares[0], shares[1], shares[2]);
  if (p.exposed_communication_ms > kWorthNaming * p.step_ms)
    if (const std::string most = most_exposed(p, time); !most.empty()) line += fmt::format(" (most exposed: {})", most);
  return line;
}

bool alike(const sim::RankGroup& group) {
  return group.traits.kernels == 1 && group.traits.host == 1 && !group.own_workload && group.link_slowdown == 1 &&
         group.network_slowdown == 1;
}

/// "rank 5", "ranks 3–59 (every 8th)", "all 64 ranks".
std::string members_words(const sim::RankGroup& group, std::uint32_t world) {
  constexpr std::size_t kRuns = 3;
  if (group.count == world && world > 1) return fmt::format("all {} ranks", world);
  return (group.count == 1 ? "rank " : "ranks ") + rank_words(group.members, kRuns);
}

/// "in groups whose slowest adapter, 1.3, takes 5.8 times as long": of more than one no group's is told.
std::string slowest_words(const char* link, const std::vector<std::string>& slow, double slowdown) {
  return fmt::format("in groups whose slowest {}{} takes {:.3g} times as long", link,
                     slow.size() == 1 ? fmt::format(", {},", slow.front()) : std::string(), slowdown);
}

std::vector<std::string> names_of(const std::vector<sim::SlowAdapter>& adapters) {
  std::vector<std::string> out;
  for (const sim::SlowAdapter& slow : adapters) out.push_back(fmt::format("{}.{}", slow.node, slow.adapter));
  return out;
}

std::vector<std::string> names_of(const std::vector<sim::SlowLink>& links) {
  std::vector<std::string> out;
  for (const sim::SlowLink& slow : links) out.push_back(fmt::format("rank {}'s", slow.rank));
  return out;
}

/// "; what each costs alone, and beside the others: rank 5's GPU 3.00 and 1.20 ms, …"; empty of one difference.
std::string costs_words(const sim::Prediction& p) {
  std::vector<std::string> costs;
  for (const sim::RankCost& cost : p.rank_costs)
    costs.push_back(fmt::format("{} {:.2f} and {:.2f} ms", cost.what, cost.alone_ms, cost.beside_ms));
  if (costs.size() < 2) return {};
  return fmt::format("; what each costs alone, and beside the others: {}", fmt::join(costs, ", "));
}

std::string background_line(const sim::Prediction& p) {
  const double longer = p.step_ms - p.step_alike_ms;
  if (std::abs(longer) < sim::kShownMs) return fmt::format("{}: the step is the same without it", words(p.background));
  return fmt::format("{}: the step is {:.2f} ms ({:.1f} %) {} than the {:.2f} ms without it", words(p.background),
                     std::abs(longer), std::abs(share_of(longer, p.step_alike_ms)), longer < 0 ? "shorter" : "longer",
                     p.step_alike_ms);
}

/// How long the told rank waits for others: "for 4.04 ms", and where the others wait for that rank for as long that one
/// is called late, for how long they do.
std::string told_waiting(const sim::Prediction& p) {
  RankTime told;
  if (p.stragglers)
    for (const RankTime& rank : p.stragglers->ranks)
      if (rank.rank == p.told_rank) told = rank;
  std::string out = fmt::format("for {:.2f} ms", told.waiting.ms());
  if (told.delay.ms() >= kLateShareOfStep * p.step_ms)
    out += fmt::format(", and they for it for {:.2f} ms on average", told.delay.ms());
  return out;
}

}  // namespace

std::string ranks_line(const sim::Prediction& p) {
  if (std::all_of(p.ranks.begin(), p.ranks.end(), alike)) return background_line(p);
  if (std::any_of(p.ranks.begin(), p.ranks.end(), [](const sim::RankGroup& group) { return group.skips.has_value(); }))
    return fmt::format("ranks that differ ({}): what they leave out is not computed, in {:.2f} ms a step",
                       rank_differences(p), p.step_ms);
  const bool all = p.ranks.size() == 1 && p.run.settings.world() > 1;  // none is as the settings say
  const double longer = p.step_ms - p.step_alike_ms;
  const std::string change =
      std::abs(longer) < sim::kShownMs
          ? std::string(all ? "does not change the step" : "do not change the step")
          : fmt::format("{} the step {:.2f} ms ({:.1f} %) {}", all ? "makes" : "make", std::abs(longer),
                        std::abs(share_of(longer, p.step_alike_ms)), longer < 0 ? "shorter" : "longer");
  const std::string in_step = p.cycle > 1 ? fmt::format("in the mean of the {} steps", p.cycle) : "in the step";
  return fmt::format("{} ({}) {}: {:.2f} ms {}; {} rank {} waits for other ranks {}{}",
                     all ? "what differs from the settings" : "ranks that differ", rank_differences(p), change,
                     p.step_alike_ms, all ? "without it" : "if all were alike", in_step, p.told_rank, told_waiting(p),
                     costs_words(p));
}

std::string fitting_words(const sim::Remedies& remedies, const std::vector<std::string>& said, bool alike) {
  if (remedies.useful.empty())
    return fmt::format("none of {} changes that were simulated makes it fit", remedies.tried);
  const sim::Remedy& best = remedies.useful.front();
  std::vector<std::string> why = best.not_valid;
  std::erase_if(why, [&](const std::string& one) { return std::find(said.begin(), said.end(), one) != said.end(); });
  return fmt::format(
      "{} {} fit: {} reserved{}{}{}{}{}", best.setting, best.may_run_out_of_memory ? "may" : "would",
      format_bytes(best.peaks.reserved),
      best.has_time ? fmt::format(", {} a step{}", milliseconds(best.step_ms), alike ? " if all ranks were alike" : "")
                    : std::string(),
      best.valid    ? ""
      : why.empty() ? " (not valid)"
                    : fmt::format(" (not valid: {})", fmt::join(why, "; ")),
      best.retries_each_step ? "; only with retries in each step" : "",
      best.host_bytes_a_node > 0
          ? fmt::format("; it {}, and how much that has is in no profile", host_memory_words(best))
          : std::string(),
      best.largest ? fmt::format(" ({})", words_of(*best.largest)) : std::string());
}

std::string rank_differences(const sim::Prediction& p) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> parts;
  std::size_t groups = 0, ranks = 0;  // beyond those
  for (const sim::RankGroup& group : p.ranks) {
    if (alike(group)) continue;
    if (parts.size() == kNamed) {
      ++groups;
      ranks += group.count;
      continue;
    }
    std::vector<std::string> how;
    if (std::string own = sim::own_differences(group); !own.empty()) how.push_back(std::move(own));
    if (group.skips) how.push_back("without " + group.skips->unit);
    if (group.link_slowdown > 1) how.push_back(slowest_words("NVLink", names_of(p.slow_links), group.link_slowdown));
    if (group.network_slowdown > 1)
      how.push_back(slowest_words("adapter", names_of(p.slow_adapters), group.network_slowdown));
    parts.push_back(fmt::format("{}: {}", members_words(group, p.run.settings.world()), fmt::join(how, ", ")));
  }
  if (groups > 0)
    parts.push_back(fmt::format("{} more rank{}{}", ranks, ranks == 1 ? "" : "s",
                                groups == 1 || ranks == groups ? "" : fmt::format(" in {} groups", groups)));
  if (p.background.any()) parts.push_back(words(p.background));
  return fmt::format("{}", fmt::join(parts, "; "));
}

FailedPlace failed_place(const Run& run) {
  FailedPlace place;
  // The phase under way has no end.
  if (!run.phases.empty() && run.phases.back().end <= run.phases.back().start) place.phase = run.phases.back().name;
  if (run.blocks.empty()) return place;
  const BlockRecord& block = run.blocks.back();
  const BlockNames names(run);
  place.step = block.step;
  place.of = names.owner(block);
  place.op = names.op(block);
  return place;
}

std::string text_of(const FailedPlace& place) {
  std::string text = place.step < 0 ? "set-up" : fmt::format("step {}", place.step);
  if (!place.phase.empty() && place.step >= 0) text += ", " + place.phase;
  if (!place.of.empty()) text += ", " + place.of;
  if (!place.op.empty())
    text += fmt::format("{}{}{}", place.of.empty() ? ", " : " (", place.op, place.of.empty() ? "" : ")");
  return text;
}

PlanBasis basis_of(const traces::Source& source, bool machine_assumed, const std::string& fabric,
                   const Topology& topology, const JobOptions& job_options) {
  return {&source.settings,
          nullptr,
          machine_assumed,
          {},
          source.model_options,
          traces::left_out(source, job_options),
          fabric,
          {},
          topology,
          job_options};
}

PlanBasis basis_of(const Planned& planned) {
  PlanBasis basis =
      basis_of(planned.source, planned.machine_assumed, planned.fabric, planned.topology, planned.job_options);
  const sim::Network& network = planned.machine.network;
  if (network.nics > 0)
    basis.network =
        fmt::format("{} adapter{} of {:.6g} GB/s each{}", network.nics, network.nics == 1 ? "" : "s", network.nic,
                    network.leaf_nodes == 0 && network.group_nodes == 0 ? ", no switch oversubscribed" : "");
  return basis;
}

std::string_view bound_name(const sim::Prediction& p) {
  constexpr std::array<std::string_view, 4> kNames{"gpu", "links", "host", "ranks"};
  return kNames[static_cast<std::size_t>(p.bound_by())];
}

std::string bound_word(const sim::Prediction& p) {
  constexpr std::array<std::string_view, 3> kWords{"GPU-bound", "link-bound", "host-bound"};
  const auto slower = slower_ranks(p);
  if (!slower) return std::string(kWords[static_cast<std::size_t>(p.bound_by())]);
  return slower_words(p, *slower);
}

std::string slower_words(const sim::Prediction& p, const sim::SlowerRanks& slower) {
  return fmt::format("{:.2f} ms ({:.1f} %) longer because of {}", slower.longer_ms,
                     share_of(slower.longer_ms, p.step_ms - slower.longer_ms), slower.what);
}

std::string step_time_unknown(const sim::Prediction& p) {
  if (p.has_time || p.out_of_memory || p.lengths_run_out() || p.deadlock || p.hang) return {};
  return p.time_unknown.empty() ? "the source has no times (no profiler trace of eager steps)" : p.time_unknown.front();
}

std::string_view rate_unit(const Settings& settings) {
  return settings.seq.value_or(1) > 1 ? "tokens/s/GPU" : "samples/s/GPU";
}

Bytes free_at_peak(const sim::Prediction& p) {
  const Bytes most = most_reserved(p);
  return p.out_of_memory || p.lengths_run_out() || most > p.memory_capacity ? 0 : p.memory_capacity - most;
}

namespace {

/// How a job ends says why its numbers are wrong.
bool is_said(const std::vector<std::string>& lines, const std::string& why) {
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return line.ends_with(why); });
}

}  // namespace

std::vector<std::string> memory_lines(const sim::Prediction& p, bool machine_assumed) {
  std::vector<std::string> lines{memory_line(p, machine_assumed)};
  if (p.drawn_memory && (p.out_of_memory || p.lengths_run_out())) lines.push_back(drawn_fit_line(*p.drawn_memory));
  return lines;
}

std::vector<std::string> answer_lines(const sim::Prediction& p, const PlanBasis& basis, const PlanTime& time,
                                      const sim::Remedies* fitting) {
  std::vector<std::string> lines = end_lines(p);
  if (!p.hang && !p.deadlock)
    for (std::string& line : memory_lines(p, basis.machine_assumed)) lines.push_back(std::move(line));
  if (fitting != nullptr) lines.push_back(fitting_words(*fitting, p.not_valid, p.unlike));
  if (p.flapping && !p.flapping->job_end) lines.push_back(flapping_line(p));
  if (p.trials && p.trials->lengths) lines.push_back(lengths_line(*p.trials));
  if (p.has_time) lines.push_back((p.flapping ? kLinksUp : if_longest(p.longest_drawn)) + time_line(p, time));
  if (p.run.settings.expert_parallel > 1) lines.push_back(experts_line(p));
  if (const std::string why = step_time_unknown(p); !why.empty()) lines.push_back("step time not known: " + why);
  if (p.has_time && p.emulated)
    lines.emplace_back(
        "of run --emulate: the source does not say what its kernels compute, so each takes the time that it has there; "
        "FSDP2's part, collectives and the host's waits are foreshard's");
  if (p.has_time && !rank_differences(p).empty()) lines.push_back(ranks_line(p));
  if (p.trials && !p.trials->lengths) lines.push_back(trials_line(*p.trials, p.step_ms));
  if (p.beside) lines.push_back(beside_line(*p.beside, p.step_ms));
  if (basis.upgrade != nullptr)
    for (std::string& line : upgrade_lines(*basis.upgrade)) lines.push_back(std::move(line));
  if (!basis.no_upgrade.empty()) lines.push_back(basis.no_upgrade);
  if (std::string shapes = shapes_line(p); !shapes.empty()) lines.push_back(std::move(shapes));
  lines.push_back(program_line(p, basis));
  for (const std::string& what : basis.left_out) lines.push_back(left_out_line(what));
  for (const std::string& why : p.not_valid)
    if (!is_said(lines, why)) lines.push_back("not valid: " + why);
  return lines;
}

}  // namespace foreshard::cli
