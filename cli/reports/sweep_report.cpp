#include "cli/reports/sweep_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/reports/counted.hpp"
#include "cli/reports/json_values.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/reports/remedy_json.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/json_io.hpp"
#include "core/base/shell_word.hpp"
#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::cli {
namespace {

using sim::SweepPoint;

bool contains(const std::vector<std::size_t>& indices, std::size_t index) {
  return std::find(indices.begin(), indices.end(), index) != indices.end();
}

/// A value as the user gave it: the name of the file where it is a file's text.
const std::string& given(const SweepResult& result, const SweepPoint& point, std::size_t range) {
  const auto file = result.files.find({result.ranges[range].key, point.values[range]});
  return file == result.files.end() ? point.values[range] : file->second;
}

/// A rank that has all experts sees no imbalance.
bool has(const SweepPoint& point, const Range& range) {
  return range.key != "router_imbalance" || point.settings.expert_parallel > 1;
}

/// "--forward-prefetch 2 --all-gather nccl": what plan takes for the same point; or only where points differ.
std::string options_of(const SweepResult& result, const SweepPoint& point, bool differing = false) {
  std::string out;
  for (std::size_t i = 0; i < result.ranges.size(); ++i) {
    const Range& range = result.ranges[i];
    if ((differing && range.values.size() < 2) || !has(point, range)) continue;
    const auto table = setting_table();
    const auto setting =
        std::find_if(table.begin(), table.end(), [&](const SettingOption& c) { return c.key == range.key; });
    const bool flag = setting->form == SettingForm::flag;
    out += (out.empty() ? "" : " ") + setting->option(flag ? point.values[i] : shell_word(given(result, point, i)));
  }
  return out;
}

bool counts_tokens(const SweepResult& result) {
  return std::any_of(result.points.begin(), result.points.end(),
                     [](const SweepPoint& p) { return p.settings.seq.value_or(1) > 1; });
}

/// Whether a point has its experts on several ranks.
bool splits_experts(const SweepResult& result) {
  return std::any_of(result.points.begin(), result.points.end(),
                     [](const SweepPoint& p) { return p.settings.expert_parallel > 1; });
}

/// Whether times chose the best point; else memory alone did.
bool timed(const SweepResult& result) {
  return result.best && result.points[*result.best].has_time;
}

std::string_view rate_unit(const SweepResult& result) {
  return counts_tokens(result) ? "tokens/s/GPU" : "samples/s/GPU";
}

std::string marks(const SweepResult& result, std::size_t index) {
  const SweepPoint& point = result.points[index];
  std::vector<std::string> words;
  if (result.best == index)
    words.push_back(
        fmt::format("{}{}", point.has_time ? "best" : "smallest", result.memory_limit ? " within the limit" : ""));
  if (result.best != index && result.fastest == index) words.emplace_back("fastest");
  if (point.host_binds) words.emplace_back("host-bound");
  if (point.num_alloc_retries > 0)
    words.emplace_back(point.step_num_alloc_retries > 0 ? "retries in each step" : "allocation retries");
  if (fits(point) == sim::Fits::maybe) words.emplace_back("may not fit");
  if (!point.valid) words.emplace_back("not valid");
  return fmt::format("{}", fmt::join(words, ", "));
}

void print_points(std::ostream& out, const SweepResult& result, const std::vector<std::size_t>& indices) {
  constexpr auto kRight = Table::Align::right;
  std::vector<Table::Column> columns;
  std::vector<std::size_t> shown;  // ranges with one value alone say nothing
  for (std::size_t i = 0; i < result.ranges.size(); ++i) {
    if (result.ranges[i].values.size() < 2) continue;
    shown.push_back(i);
    columns.push_back({result.ranges[i].key});
  }
  const std::size_t most = 40;
  const bool times = timed(result);
  if (times)
    columns.insert(columns.end(), {{"step", kRight}, {"step ±", kRight}, {std::string(rate_unit(result)), kRight}});
  const bool exchanges = times && splits_experts(result);
  if (exchanges) columns.push_back({"exposed all-to-all", kRight});
  columns.insert(columns.end(), {{"peak reserved", kRight}, {""}});
  Table table(columns);
  for (const std::size_t index : indices) {
    const SweepPoint& point = result.points[index];
    std::vector<std::string> cells;
    for (const std::size_t i : shown)
      cells.push_back(has(point, result.ranges[i]) ? given(result, point, i).substr(0, most) : "-");
    if (times) {
      cells.push_back(milliseconds(point.step_ms));
      cells.push_back(fmt::format("{:.0f} %", point.uncertainty * 100));
      cells.push_back(point.tokens_per_s_per_gpu > 0 ? fmt::format("{:.0f}", point.tokens_per_s_per_gpu) : "-");
    }
    if (exchanges) cells.push_back(milliseconds(point.exposed_all_to_all_ms));
    cells.push_back(format_bytes_fixed(point.peaks.reserved));
    cells.push_back(marks(result, index));
    table.row(cells);
  }
  table.print(out);
}

/// Of a point that ran or did not fit; empty: it deadlocks.
std::string fits_word(const SweepPoint& point) {
  if (point.state == SweepPoint::State::deadlock) return {};
  return std::string(name(fits(point)));
}

std::size_t count(const SweepResult& result, SweepPoint::State state) {
  return static_cast<std::size_t>(
      std::count_if(result.points.begin(), result.points.end(), [&](const SweepPoint& p) { return p.state == state; }));
}

void print_counts(std::ostream& out, const SweepResult& result) {
  out << fmt::format("{} of {} on {}{}: {} ran",
                     counted(static_cast<std::int64_t>(result.points.size()), "point", "points"),
                     in_line(model_title(result.name, result.model_options)), in_line(result.machine),
                     result.machine_assumed ? " (assumed)" : "", count(result, SweepPoint::State::ran));
  const std::pair<SweepPoint::State, const char*> others[] = {{SweepPoint::State::out_of_memory, "out of memory"},
                                                              {SweepPoint::State::deadlock, "deadlocked"},
                                                              {SweepPoint::State::refused, "refused"}};
  for (const auto& [state, words] : others)
    if (const std::size_t n = count(result, state); n > 0) out << fmt::format(", {} {}", n, words);
  if (!result.unlike.empty()) out << "; each of a job with " << in_line(result.unlike);
  if (result.not_tried > 0)
    out << fmt::format("; interrupted: {} more {} not tried", result.not_tried,
                       result.not_tried == 1 ? "point was" : "points were");
  out << '\n';
  for (const std::string& what : result.left_out) out << in_line(left_out_line(what)) << '\n';
}

/// " (40 GiB to 46 GiB with the host's speed, or out of memory)", where record_stream makes the peak follow that.
std::string host_range_words(const SweepPoint& point) {
  const std::string_view lost = point.may_run_out_of_memory ? ", or out of memory" : "";
  if (point.least_reserved >= point.most_reserved) return lost.empty() ? std::string() : " (or out of memory)";
  return fmt::format(" ({} to {} with the host's speed{})", format_bytes(point.least_reserved),
                     format_bytes(point.most_reserved), lost);
}

/// The ranges' options of a point; all of them where none differs between points.
std::string answer_options(const SweepResult& result, const SweepPoint& point) {
  std::string options = options_of(result, point, true);
  if (options.empty()) options = options_of(result, point);
  return options.empty() ? "the source's settings" : options;
}

/// What the slowest of the valid points takes, for one token or sample where batches differ; empty: it is the best, or
/// cannot be told from it.
std::string slowest_words(const SweepResult& result, const SweepPoint& best) {
  const auto time = [](const SweepPoint& point) {
    return point.tokens_per_s_per_gpu > 0 ? 1 / point.tokens_per_s_per_gpu : point.step_ms;
  };
  const SweepPoint* slowest = nullptr;
  for (const SweepPoint& point : result.points) {
    if (point.state != SweepPoint::State::ran || !point.has_time || point.valid != best.valid) continue;
    if (point.may_run_out_of_memory != best.may_run_out_of_memory) continue;
    if ((point.tokens_per_s_per_gpu > 0) != (best.tokens_per_s_per_gpu > 0)) continue;
    if (point.router_imbalance != best.router_imbalance) continue;
    if (slowest == nullptr || time(point) > time(*slowest)) slowest = &point;
  }
  if (slowest == nullptr || !best.has_time || slowest == &best) return {};
  if (contains(result.ties, static_cast<std::size_t>(slowest - result.points.data()))) return {};
  const bool alike = sim::work_of_step(slowest->settings) == sim::work_of_step(best.settings);
  return fmt::format("; the slowest, {}, takes {:.1f} % longer{}", answer_options(result, *slowest),
                     100 * (time(*slowest) / time(best) - 1),
                     alike                   ? ""
                     : counts_tokens(result) ? " a token"
                                             : " a sample");
}

/// Where batch or sequence length differ: the point with the most samples or tokens a step that fits.
std::optional<std::size_t> most_that_fits(const SweepResult& result) {
  if (range_of(result, sim::SizeSetting::batch) == nullptr && range_of(result, sim::SizeSetting::seq) == nullptr)
    return std::nullopt;
  const auto key = [](const SweepPoint& p) {  // the largest one counts
    return std::tuple(fits(p) == sim::Fits::surely, sim::work_of_step(p.settings),
                      -static_cast<double>(p.peaks.reserved));
  };
  const SweepPoint* most = nullptr;
  for (const SweepPoint& point : result.points)
    if (fits(point) != sim::Fits::no && (most == nullptr || key(point) > key(*most))) most = &point;
  if (most == nullptr || sim::work_of_step(most->settings) <= 0) return std::nullopt;
  return static_cast<std::size_t>(most - result.points.data());
}

/// "; the list ends there: --batch 11 fits, too: …": what of one size lies beyond the points.
std::string beyond_words(const SweepResult& result, const sim::LargestFit& found) {
  const Settings& most = result.points[*result.most].settings;
  const std::uint32_t own = *(found.size == sim::SizeSetting::batch ? most.batch : most.seq);
  const std::vector<std::string>& values = range_of(result, found.size)->values;
  const bool last = std::all_of(values.begin(), values.end(),
                                [&](const std::string& value) { return parse_count(value).value_or(0) <= own; });
  const std::string words = last ? "; the list ends there" : "; between values of the list";
  if (found.value <= own) return fmt::format("{}: {}", words, words_of(found));
  return fmt::format("{}: --{} {} {}, too: {} reserved ({})", words, name(found.size), found.value,
                     found.found().fits == sim::SizeFits::maybe ? "may fit" : "fits",
                     format_bytes(found.found().reserved), words_of(found));
}

void print_most_that_fits(std::ostream& out, const SweepResult& result) {
  if (!result.most) return;
  const SweepPoint& most = result.points[*result.most];
  std::string more;
  if (const SweepPoint* refused = larger_refused(result))
    more = fmt::format("; whether more fits is not known: larger ones were refused, not tried ({})", refused->reason);
  for (const sim::LargestFit& found : result.beyond) more += beyond_words(result, found);
  out << fmt::format("most that {}: {}: {:.0f} {} a GPU and step, {} reserved{}{}\n",
                     fits(most) == sim::Fits::surely ? "fits" : "may fit", answer_options(result, most),
                     sim::work_of_step(most.settings), counts_tokens(result) ? "tokens" : "samples",
                     format_bytes(most.peaks.reserved), host_range_words(most), more);
}

/// How well the ratio of the best point's time to its ties' is known, relative.
double known_ratio(const SweepResult& result) {
  double known = result.points[*result.best].difference;
  for (const std::size_t tie : result.ties) known = std::max(known, result.points[tie].difference);
  return known;
}

/// What the two ± are of.
void print_widths(std::ostream& out, const SweepResult& result) {
  out << fmt::format(
      "step ±: of one point by itself, nine of ten measured steps lie within it; two points have most of that in "
      "common, and the ratio of their times is known to ±{:.1f} %\n",
      known_ratio(result) * 100);
}

/// What the best point is best by, where points differ in what a step is of: " by tokens/s/GPU".
std::string measure_words(const SweepResult& result) {
  const auto size = [](const SweepPoint& p) { return std::pair(p.settings.world(), sim::work_of_step(p.settings)); };
  const SweepPoint& best = result.points[*result.best];
  const bool alike = std::all_of(result.points.begin(), result.points.end(), [&](const SweepPoint& point) {
    return point.state == SweepPoint::State::refused || size(point) == size(best);
  });
  if (!best.has_time || alike) return {};
  return fmt::format(" by {}", best.tokens_per_s_per_gpu > 0 ? rate_unit(result) : "step time");
}

/// That several points are equally fast, as far as is known, and by which rule one of them is named; empty: one is
/// best.
std::string tie_words(const SweepResult& result, const SweepPoint& best) {
  if (result.ties.empty() || !best.has_time) return {};
  std::string of_fastest;  // where points differ in what a step is of, the least step says nothing
  if (measure_words(result).empty() || best.tokens_per_s_per_gpu <= 0) {
    double least = best.step_ms;
    for (const std::size_t tie : result.ties) least = std::min(least, result.points[tie].step_ms);
    of_fastest = fmt::format(" of the fastest, {},", milliseconds(least));
  }
  const double known = known_ratio(result);
  const std::string which =
      known > result.near ? fmt::format("of those within {:.1f} % the one", result.near * 100) : "the one";
  return fmt::format(
      "any of {} points, as times within ±{:.1f} %{} cannot be told apart; {} of least memory, then time, is ",
      result.ties.size() + 1, known * 100, of_fastest, which);
}

/// ", 34.16 ms exposed all-to-all", where points have their experts on several ranks.
std::string exchange_words(const SweepResult& result, const SweepPoint& point) {
  if (!point.has_time || !splits_experts(result)) return {};
  return fmt::format(", {} exposed all-to-all", milliseconds(point.exposed_all_to_all_ms));
}

std::string retries_words(const SweepPoint& point) {
  if (point.step_num_alloc_retries == 0) return {};
  return fmt::format("; only with {} {}",
                     counted(point.step_num_alloc_retries, "allocation retry", "allocation retries"),
                     point.has_time ? "a step" : "in each step");
}

/// The sweep's first lines.
void print_answer(std::ostream& out, const SweepResult& result) {
  if (!result.best) {
    const bool out_of_memory = result.memory_limit && count(result, SweepPoint::State::out_of_memory) > 0;
    out << (out_of_memory ? fmt::format("no point stays within {}\n", format_bytes(*result.memory_limit))
                          : std::string("no point runs\n"));
    return;
  }
  const SweepPoint& best = result.points[*result.best];
  const bool sure = fits(best) == sim::Fits::surely;
  out << fmt::format("{}{}{}{}: {}{}{}, {} reserved{}{}{}{}{}\n", best.has_time ? "best" : "smallest",
                     result.not_tried > 0 ? " of those tried" : "", measure_words(result),
                     result.memory_limit ? " within " + format_bytes(*result.memory_limit) : std::string(),
                     tie_words(result, best), answer_options(result, best),
                     best.has_time ? fmt::format(": {} a step", milliseconds(best.step_ms)) : std::string(),
                     format_bytes(best.peaks.reserved), host_range_words(best) + exchange_words(result, best),
                     slowest_words(result, best), retries_words(best), sure ? "" : "; it may not fit",
                     best.valid ? "" : "; not valid");
  if (!best.has_time)
    out << "which is fastest is not known: the source has no times (no profiler trace of eager steps)\n";
  print_most_that_fits(out, result);
}

/// The points that cannot be told from the best.
void print_ties(std::ostream& out, const SweepResult& result) {
  if (!result.best || result.ties.empty()) return;
  constexpr std::size_t kTiesShown = 5;
  out << (timed(result) ? "\nno difference to the best:\n" : "\nthe others, whose times are not known either:\n");
  for (std::size_t i = 0; i < std::min(kTiesShown, result.ties.size()); ++i) {
    const SweepPoint& tie = result.points[result.ties[i]];
    out << fmt::format("  {} ({}{})\n", options_of(result, tie, true),
                       tie.has_time ? milliseconds(tie.step_ms) + ", " : std::string(),
                       format_bytes(tie.peaks.reserved) + exchange_words(result, tie));
  }
  if (result.ties.size() > kTiesShown)
    out << fmt::format("  and {} more (--json has all)\n", result.ties.size() - kTiesShown);
}

/// Where some points are valid: the others, which take no part in what is best.
void print_not_valid(std::ostream& out, const SweepResult& result) {
  const auto ran = [](const SweepPoint& p) { return p.state == SweepPoint::State::ran; };
  if (!result.best || !result.points[*result.best].valid) return;
  std::size_t count = 0;
  const SweepPoint* fastest = nullptr;
  for (const SweepPoint& point : result.points) {
    if (!ran(point) || point.valid) continue;
    ++count;
    if (point.has_time && (fastest == nullptr || point.step_ms < fastest->step_ms)) fastest = &point;
  }
  if (count == 0) return;
  out << fmt::format("{} {} not valid and {} no part", count, count == 1 ? "point is" : "points are",
                     count == 1 ? "takes" : "take");
  if (fastest != nullptr)
    out << fmt::format(", the fastest of them {} ({}, {}): {}", options_of(result, *fastest, true),
                       milliseconds(fastest->step_ms), format_bytes(fastest->peaks.reserved),
                       fmt::join(fastest->not_valid, "; "));
  out << '\n';
}

/// Where the best surely fits: valid points that may not, with some speed of the host, and so come after it.
void print_may_not_fit(std::ostream& out, const SweepResult& result) {
  if (!result.best) return;
  const SweepPoint& best = result.points[*result.best];
  if (!best.valid || fits(best) != sim::Fits::surely) return;
  std::size_t count = 0;
  const SweepPoint* fastest = nullptr;
  for (const SweepPoint& point : result.points) {
    if (!point.valid || fits(point) != sim::Fits::maybe) continue;
    ++count;
    if (point.has_time && (fastest == nullptr || point.step_ms < fastest->step_ms)) fastest = &point;
  }
  if (count == 0) return;
  out << fmt::format("{} {} not fit with every speed of the host, and {} after those that do", count,
                     count == 1 ? "point may" : "points may", count == 1 ? "comes" : "come");
  if (fastest != nullptr)
    out << fmt::format(", the fastest of them {}: {}, {} reserved{}", answer_options(result, *fastest),
                       milliseconds(fastest->step_ms), format_bytes(fastest->peaks.reserved),
                       host_range_words(*fastest));
  out << '\n';
}

/// Where the best lives without retries: those that do not, and take no part.
void print_retrying(std::ostream& out, const SweepResult& result) {
  if (!result.best || result.points[*result.best].step_num_alloc_retries > 0) return;
  const SweepPoint& best = result.points[*result.best];
  std::size_t count = 0;
  const SweepPoint* fastest = nullptr;
  for (const SweepPoint& point : result.points) {
    if (point.state != SweepPoint::State::ran || point.valid < best.valid || point.step_num_alloc_retries == 0)
      continue;
    ++count;
    if (point.has_time && (fastest == nullptr || point.step_ms < fastest->step_ms)) fastest = &point;
  }
  if (count == 0) return;
  out << fmt::format("{} with allocation retries in every step {} no part",
                     count == 1 ? "a point" : fmt::format("{} points", count), count == 1 ? "takes" : "take");
  if (fastest != nullptr)
    out << fmt::format(", the fastest of them {}: {}, what they take included, {} reserved",
                       answer_options(result, *fastest), milliseconds(fastest->step_ms),
                       format_bytes(fastest->peaks.reserved));
  out << '\n';
}

Json point_json(const SweepResult& result, std::size_t index) {
  const SweepPoint& point = result.points[index];
  Json json;
  json["index"] = index;
  json["settings"] = Json::object();
  for (std::size_t i = 0; i < result.ranges.size(); ++i) {
    const std::string& value = has(point, result.ranges[i]) ? point.values[i] : std::string("null");
    Json& out = json["settings"][result.ranges[i].key];
    const bool one = out.is_null();  // reshard_of_unit has a range for each unit
    const Json parsed = parse_ordered_json_text(value);
    const Json typed = parsed.is_discarded() ? Json(value) : parsed;
    if (one)
      out = typed;
    else if (out.is_array())
      out.push_back(typed);
    else
      out = Json::array({out, typed});
  }
  json["choices"] = json["settings"];  // the former name
  json["state"] = name(point.state);
  if (!point.reason.empty()) json["reason"] = point.reason;
  if (point.state == SweepPoint::State::refused) return json;
  const auto time = [&](double value) { return point.has_time ? Json(value) : Json(nullptr); };
  json["step_ms"] = time(point.step_ms);
  json["host_ms"] = time(point.host_ms);
  json["exposed_communication_ms"] = time(point.exposed_communication_ms);
  json["exposed_all_to_all_ms"] = time(point.exposed_all_to_all_ms);
  json["tokens_per_s_per_gpu"] = point.tokens_per_s_per_gpu > 0 ? Json(point.tokens_per_s_per_gpu) : Json(nullptr);
  json["host_bound"] = point.host_bound;
  json["uncertainty"] = point.uncertainty;
  json["peak_requested_bytes"] = point.peaks.requested;
  json["peak_allocated_bytes"] = point.peaks.allocated;
  json["peak_active_bytes"] = point.peaks.active;
  json["peak_reserved_bytes"] = point.peaks.reserved;
  if (point.least_reserved < point.most_reserved)
    json["peak_reserved_bytes_range"] = {point.least_reserved, point.most_reserved};
  json["num_alloc_retries"] = point.num_alloc_retries;
  json["fits"] = text_or_null(fits_word(point));
  json["may_run_out_of_memory"] = point.may_run_out_of_memory;
  json["within_limit"] = fits(point) != sim::Fits::no;  // the former form of `fits`
  json["valid"] = point.valid;
  json["not_valid"] = point.not_valid;
  json["warnings"] = point.warnings;
  json["not_as_asked"] = point.not_as_asked;
  return json;
}

/// Null where neither batch nor sequence length differ, or nothing fits.
Json most_json(const SweepResult& result) {
  if (!result.most) return nullptr;
  const SweepPoint* refused = larger_refused(result);
  Json beyond = Json::array();
  for (const sim::LargestFit& found : result.beyond)
    beyond.push_back({{"key", name(found.size)},
                      {"value", found.value > 0 ? Json(found.value) : Json(nullptr)},
                      {"peak_reserved_bytes", found.value > 0 ? Json(found.found().reserved) : Json(nullptr)},
                      {"words", words_of(found)},
                      {"tried", tried_json(found)}});
  return {{"point", *result.most},
          {"work", sim::work_of_step(result.points[*result.most].settings)},
          {"larger_refused", refused != nullptr ? Json(refused->reason) : Json(nullptr)},
          {"beyond", std::move(beyond)}};
}

Json reasons_json(const std::vector<sim::ReasonCount>& reasons) {
  Json list = Json::array();
  for (const auto& [reason, points] : reasons) list.push_back({{"reason", reason}, {"points", points}});
  return list;
}

void print_reasons(std::ostream& out, std::string_view title, const std::vector<sim::ReasonCount>& reasons) {
  if (!reasons.empty()) out << '\n' << title << '\n';
  for (const auto& [reason, points] : reasons)
    out << fmt::format("  {} {}: {}\n", points, points == 1 ? "point" : "points", in_line(reason));
}

Json optional_index(const std::optional<std::size_t>& index) {
  return index ? Json(*index) : Json(nullptr);
}

/// Of each value of router_imbalance what is best; null where there is not more than one.
Json imbalances_json(const SweepResult& result) {
  if (result.others.empty()) return nullptr;
  Json list = Json::array();
  const auto add = [&](const Ranking& ranking) {
    list.push_back(
        {{"router_imbalance", ranking.best ? Json(result.points[*ranking.best].router_imbalance) : Json(nullptr)},
         {"best", optional_index(ranking.best)},
         {"fastest", optional_index(ranking.fastest)},
         {"pareto", ranking.pareto},
         {"ties", ranking.ties}});
  };
  add(result);
  for (const Ranking& ranking : result.others) add(ranking);
  return list;
}

}  // namespace

std::string_view name(sim::SweepPoint::State state) {
  switch (state) {
    case sim::SweepPoint::State::ran:
      return "ran";
    case sim::SweepPoint::State::out_of_memory:
      return "out_of_memory";
    case sim::SweepPoint::State::deadlock:
      return "deadlock";
    case sim::SweepPoint::State::refused:
      return "refused";
  }
  return "refused";
}

std::string_view name(sim::Fits fits) {
  constexpr std::array<std::string_view, 3> kWords{"fits", "may not fit", "does not fit"};
  return kWords[static_cast<std::size_t>(fits)];
}

const Range* range_of(const SweepResult& result, sim::SizeSetting size) {
  const auto range = std::find_if(result.ranges.begin(), result.ranges.end(),
                                  [&](const Range& r) { return r.key == name(size) && r.values.size() > 1; });
  return range == result.ranges.end() ? nullptr : &*range;
}

const SweepPoint* larger_refused(const SweepResult& result) {
  if (!result.most) return nullptr;
  const double most = sim::work_of_step(result.points[*result.most].settings);
  const auto refused = std::find_if(result.points.begin(), result.points.end(), [&](const SweepPoint& point) {
    return point.state == SweepPoint::State::refused && sim::work_of_step(point.settings) > most;
  });
  return refused == result.points.end() ? nullptr : &*refused;
}

namespace {

/// The values of router_imbalance, as given; empty: not more than one.
std::vector<double> imbalances(const SweepResult& result) {
  std::vector<double> out;
  for (const SweepPoint& point : result.points)
    if (point.state != SweepPoint::State::refused &&
        std::find(out.begin(), out.end(), point.router_imbalance) == out.end())
      out.push_back(point.router_imbalance);
  return out.size() > 1 ? out : std::vector<double>{};
}

Ranking rank(const SweepResult& result, std::optional<double> router_imbalance) {
  const std::vector<PointCost> costs = sim::costs(result.points, router_imbalance);
  Ranking out;
  out.pareto = pareto(costs);
  if (out.pareto.empty()) return out;
  out.fastest = out.pareto.front();
  out.ties = ties(costs, *out.fastest);
  std::vector<std::size_t> near = out.ties;
  const auto time_of = [&](std::size_t point) {
    return std::find_if(costs.begin(), costs.end(), [&](const PointCost& cost) { return cost.index == point; })->time();
  };
  std::erase_if(near, [&](std::size_t tie) { return time_of(tie) > time_of(*out.fastest) * (1 + result.near); });
  out.best = smallest(costs, *out.fastest, near);
  if (out.best != out.fastest) {  // the same points, the fastest of them first
    std::erase(out.ties, *out.best);
    out.ties.insert(out.ties.begin(), *out.fastest);
  }
  return out;
}

}  // namespace

void find_best(SweepResult& result) {
  result.most = most_that_fits(result);
  const std::vector<double> apart = imbalances(result);
  static_cast<Ranking&>(result) = rank(result, apart.empty() ? std::nullopt : std::optional(apart.front()));
  result.others.clear();
  for (std::size_t i = 1; i < apart.size(); ++i) result.others.push_back(rank(result, apart[i]));
}

Json sweep_json(const SweepResult& result) {
  Json json = json_result("sweep");
  json["source"] = result.source;
  json["name"] = result.name;
  json["model_options"] = text_or_null(result.model_options);
  json["left_out"] = result.left_out;
  json["machine"] = result.machine;
  json["unlike"] = text_or_null(result.unlike);
  json["memory_limit_bytes"] = result.memory_limit ? Json(*result.memory_limit) : Json(nullptr);
  json["ranges"] = Json::array();
  for (const Range& range : result.ranges) json["ranges"].push_back({{"key", range.key}, {"values", range.values}});
  json["points"] = Json::array();
  for (std::size_t i = 0; i < result.points.size(); ++i) json["points"].push_back(point_json(result, i));
  json["points_not_tried"] = result.not_tried;
  json["pareto"] = result.pareto;
  json["best"] = optional_index(result.best);
  json["fastest"] = optional_index(result.fastest);
  json["best_overall"] = json["fastest"];  // the former name
  json["ties"] = result.ties;
  json["by_router_imbalance"] = imbalances_json(result);
  json["best_settings"] = result.best ? Json::object() : Json(nullptr);
  if (result.best)
    for (const auto& [key, value] : setting_options(result.points[*result.best].settings))
      json["best_settings"][key] = parse_ordered_json_text(value);
  json["most_that_fits"] = most_json(result);
  json["not_as_asked"] = reasons_json(sim::not_as_asked(result.points));
  json["refused"] = reasons_json(sim::refusals(result.points));
  json["pytorch"] = nullptr;
  if (result.code) json["pytorch"] = {{"environment", result.code->environment}, {"lines", result.code->lines}};
  json["fingerprint"] = text_or_null(result.fingerprint);
  return json;
}

namespace {

template <class Is>
bool in_any(const SweepResult& result, const Is& is) {
  return is(result) || std::any_of(result.others.begin(), result.others.end(), is);
}

}  // namespace

std::string sweep_csv(const SweepResult& result) {
  std::string out = "index";
  for (const Range& range : result.ranges) out += ',' + csv_field(range.key);
  out +=
      ",state,step_ms,host_ms,exposed_communication_ms,tokens_per_s_per_gpu,host_bound,uncertainty,"
      "peak_requested_bytes,peak_allocated_bytes,peak_active_bytes,peak_reserved_bytes,num_alloc_retries,"
      "step_num_alloc_retries,fits,valid,"
      "pareto,best,reason\n";
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const SweepPoint& p = result.points[i];
    out += std::to_string(i);
    for (const std::string& value : p.values) out += ',' + csv_field(value);
    const auto time = [&](double value) { return p.has_time ? fmt::format("{}", value) : std::string(); };
    const auto in_front = [i](const Ranking& ranking) { return contains(ranking.pareto, i); };
    const auto is_best = [i](const Ranking& ranking) { return ranking.best == i; };
    if (p.state == SweepPoint::State::refused)
      out += fmt::format(",{},,,,,,,,,,,,,,,,", name(p.state));
    else
      out += fmt::format(",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", name(p.state), time(p.step_ms),
                         time(p.host_ms), time(p.exposed_communication_ms),
                         p.tokens_per_s_per_gpu > 0 ? fmt::format("{}", p.tokens_per_s_per_gpu) : "", p.host_bound,
                         time(p.uncertainty), p.peaks.requested, p.peaks.allocated, p.peaks.active, p.peaks.reserved,
                         p.num_alloc_retries, p.step_num_alloc_retries, fits_word(p), p.valid, in_any(result, in_front),
                         in_any(result, is_best));
    out += ',' + csv_field(p.reason) + '\n';
  }
  return out;
}

namespace {

constexpr std::size_t kEachShown = 8;

/// Of a sweep in which no more points ran than can be looked at, those that another one beats, fastest first.
std::vector<std::size_t> beaten(const SweepResult& result) {
  std::vector<PointCost> ranked = sim::costs(result.points, std::nullopt);
  if (ranked.size() > kEachShown || !result.others.empty()) return {};
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const PointCost& a, const PointCost& b) { return a.time() < b.time(); });
  std::vector<std::size_t> out;
  for (const PointCost& one : ranked)
    if (!contains(result.pareto, one.index) && result.best != one.index) out.push_back(one.index);
  return out;
}

/// The points of a ranking that no other one beats, those that cannot be told from its best, and of few all others.
void print_ranking(std::ostream& out, const SweepResult& result) {
  if (!result.pareto.empty()) {
    out << (timed(result) ? "\nno other point is faster and smaller than these:\n" : "\nno other point is smaller:\n");
    print_points(out, result, result.pareto);
  }
  if (result.best && !contains(result.pareto, *result.best)) print_points(out, result, {*result.best});
  if (const std::vector<std::size_t> others = beaten(result); timed(result) && !others.empty()) {
    out << "\nof these another point is as fast and as small, or better:\n";
    print_points(out, result, others);
  }
  if (timed(result)) print_widths(out, result);
  print_ties(out, result);
}

/// Each further router_imbalance by itself.
void print_others(std::ostream& out, const SweepResult& result) {
  if (result.others.empty()) return;
  out << "\nrouter_imbalance is what routing does, not a choice: above are the points of its first value alone; of the "
         "others:\n";
  SweepResult other = result;
  other.most = std::nullopt;
  for (const Ranking& ranking : result.others) {
    static_cast<Ranking&>(other) = ranking;
    out << '\n';
    print_answer(out, other);
    print_ranking(out, other);
  }
}

}  // namespace

void print_sweep(std::ostream& out, const SweepResult& result) {
  print_answer(out, result);
  print_counts(out, result);
  print_ranking(out, result);
  print_others(out, result);
  print_may_not_fit(out, result);
  print_not_valid(out, result);
  print_retrying(out, result);
  print_reasons(out, "asked for, but not what runs, so that points are alike in it:", sim::not_as_asked(result.points));
  print_reasons(out, "refused:", sim::refusals(result.points));
  if (result.code) out << "\nin PyTorch:\n\n" << result.code->text();
  if (!result.fingerprint.empty()) out << "\nfingerprint " << result.fingerprint << '\n';
}

}  // namespace foreshard::cli
