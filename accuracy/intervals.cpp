#include "accuracy/intervals.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "sim/predict/interval.hpp"

namespace foreshard::accuracy {
namespace {

using Kind = IntervalRow::Kind;
using sim::PredictionSpec;

/// The kinds of steps, each with the width that its rows say most of.
struct IntervalKind {
  Kind kind;
  bool host_bound;
  bool adapted;
  double PredictionSpec::*width;
  std::string_view what;
  std::string_view stated;
};

constexpr std::array<IntervalKind, 6> kIntervalKinds{
    {{Kind::recorded, false, false, &PredictionSpec::gpu_bound,
      "step from a recording at other settings, GPU- or link-bound", "/prediction/gpu_bound"},
     {Kind::recorded, false, true, &PredictionSpec::adapted,
      "… with other checkpointing, accumulation or units, beyond that", "/prediction/adapted"},
     {Kind::recorded, true, false, &PredictionSpec::host_bound, "step from a recording at other settings, host-bound",
      "/prediction/host_bound"},
     {Kind::modelled, false, false, &PredictionSpec::model, "step from the model alone, GPU- or link-bound",
      "/prediction/model"},
     {Kind::modelled, true, false, &PredictionSpec::model_host, "step from the model alone, host-bound",
      "/prediction/model_host"},
     {Kind::published, false, false, &PredictionSpec::model_elsewhere,
      "published training rates, machines that nothing was measured on", "/prediction/model_elsewhere"}}};

bool is_of(const IntervalRow& row, const IntervalKind& kind) {
  return row.kind == kind.kind && (row.kind == Kind::published || row.host_moves() == kind.host_bound) &&
         (row.kind != Kind::recorded || row.host_moves() || row.adapted == kind.adapted);
}

/// Half widths of a row's interval, below and above, without the part of `left_out`.
std::pair<double, double> widths_at(const IntervalRow& row, const PredictionSpec& widths,
                                    double PredictionSpec::*left_out = nullptr) {
  sim::Interval interval;
  const auto add = [&](double PredictionSpec::*width, double below = 1, double above = 1) {
    if (width != left_out)
      interval.rests_on.push_back({sim::Basis::recorded, widths.*width * below, widths.*width * above});
  };
  add(row.kind == Kind::recorded ? &PredictionSpec::gpu_bound : &PredictionSpec::model);
  if (row.adapted) add(&PredictionSpec::adapted);
  if (row.kind == Kind::published) add(&PredictionSpec::model_elsewhere);
  add(row.kind == Kind::recorded ? &PredictionSpec::host_bound : &PredictionSpec::model_host, row.moved_below,
      row.moved_above);
  close_interval(1, interval);
  return {-std::log(interval.low_ms), std::log(interval.high_ms)};
}

/// How wide `width` must be for the row to be inside, were it the only row.
double needed_of(const IntervalRow& row, const PredictionSpec& widths, double PredictionSpec::*width) {
  const double error = row.error();
  const auto [below, above] = widths_at(row, widths, width);
  const double others = error < 0 ? below : above;
  const double rest = error * error - others * others;
  if (rest <= 0) return 0;
  const bool host = width == &PredictionSpec::host_bound || width == &PredictionSpec::model_host;
  const double moved = host ? (error < 0 ? row.moved_below : row.moved_above) : 1;
  return std::sqrt(rest) / std::max(moved, 0.1);
}

struct Difference {
  const IntervalRow* a;
  const IntervalRow* b;
  [[nodiscard]] bool host_bound() const { return a->host_moves() || b->host_moves(); }
  [[nodiscard]] bool of_model() const { return a->kind == Kind::modelled; }
  [[nodiscard]] double error() const { return a->error() - b->error(); }
  [[nodiscard]] double moved() const {
    return std::max({a->moved_below, a->moved_above, b->moved_below, b->moved_above});
  }
  /// As Prediction::difference, the larger of both, as `sweep` takes it.
  [[nodiscard]] double width(const PredictionSpec& widths) const {
    const auto one = [&](const IntervalRow& row) {
      return sim::difference_width(std::hypot(widths.difference, row.adapted ? widths.adapted : 0),
                                   of_model() ? widths.difference_model_host : widths.difference_host,
                                   std::max(row.moved_below, row.moved_above));
    };
    return std::max(one(*a), one(*b));
  }
};

/// Pairs of rows of one source; of models those of one program.
std::vector<Difference> differences(const std::vector<IntervalRow>& rows) {
  std::vector<Difference> out;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = i + 1; k < rows.size(); ++k)
      if (rows[i].kind == rows[k].kind && rows[i].kind != Kind::published && rows[i].source == rows[k].source &&
          rows[i].program == rows[k].program && rows[i].adapted == rows[k].adapted)
        out.push_back({&rows[i], &rows[k]});
  return out;
}

/// The widths of ratios that the pairs need: of the GPU first, then of the host what is beyond that.
void add_needed_differences(const std::vector<IntervalRow>& rows, PredictionSpec& out) {
  std::array<std::vector<double>, kEnumSize<Kind>> host;
  std::vector<double> gpu;
  const std::vector<Difference> pairs = differences(rows);
  for (const Difference& pair : pairs)
    if (!pair.host_bound() && !pair.a->adapted) gpu.push_back(pair.error());
  if (!gpu.empty()) out.difference = needed_width(std::move(gpu));
  for (const Difference& pair : pairs) {
    if (!pair.host_bound() || pair.a->adapted) continue;
    const double rest = pair.error() * pair.error() - out.difference * out.difference;
    host[static_cast<std::size_t>(pair.a->kind)].push_back(std::sqrt(std::max(0.0, rest)) /
                                                           std::max(pair.moved(), 0.1));
  }
  if (auto& recorded = host[static_cast<std::size_t>(Kind::recorded)]; !recorded.empty())
    out.difference_host = needed_width(std::move(recorded));
  if (auto& modelled = host[static_cast<std::size_t>(Kind::modelled)]; !modelled.empty())
    out.difference_model_host = needed_width(std::move(modelled));
}

std::vector<IntervalRow> without(const std::vector<IntervalRow>& rows, const std::string& program) {
  std::vector<IntervalRow> out;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(out),
               [&](const IntervalRow& row) { return row.program != program; });
  return out;
}

std::set<std::string> programs_of(const std::vector<IntervalRow>& rows) {
  std::set<std::string> out;
  for (const IntervalRow& row : rows) out.insert(row.program);
  return out;
}

IntervalCheck sum_of(const std::vector<IntervalCheck>& checks, const std::vector<IntervalRow>& rows) {
  IntervalCheck all{"all", "", 0, 0, 0, static_cast<int>(programs_of(rows).size()), 0, 0, 0};
  for (const IntervalCheck& check : checks) {
    all.rows += check.rows;
    all.inside += check.inside;
    all.left_out += check.left_out;
    all.left_out_rows += check.left_out_rows;
  }
  return all;
}

}  // namespace

double needed_width(std::vector<double> errors) {
  if (errors.empty()) return 0;
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  const double place = std::ceil(kIntervalShare * static_cast<double>(errors.size() + 1));
  return errors[std::min(static_cast<std::size_t>(place), errors.size()) - 1];
}

PredictionSpec needed_widths(const std::vector<IntervalRow>& rows, const PredictionSpec& stated) {
  PredictionSpec out = stated;
  for (const IntervalKind& kind : kIntervalKinds) {
    std::vector<double> needed;
    for (const IntervalRow& row : rows)
      if (is_of(row, kind)) needed.push_back(needed_of(row, out, kind.width));
    if (!needed.empty()) out.*kind.width = needed_width(std::move(needed));
  }
  add_needed_differences(rows, out);
  return out;
}

bool is_inside(const IntervalRow& row, const PredictionSpec& widths) {
  const auto [below, above] = widths_at(row, widths);
  return row.error() >= -below && row.error() <= above;
}

std::vector<IntervalCheck> check_intervals(const std::vector<IntervalRow>& rows, const PredictionSpec& stated) {
  const PredictionSpec needed = needed_widths(rows, stated);
  std::vector<IntervalCheck> out;
  for (const IntervalKind& kind : kIntervalKinds) {
    IntervalCheck check{kind.what, kind.stated, stated.*kind.width, needed.*kind.width, 0, 0, 0, 0, 0};
    std::vector<IntervalRow> mine;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(mine), [&](const auto& row) { return is_of(row, kind); });
    check.rows = static_cast<int>(mine.size());
    for (const std::string& program : programs_of(mine)) {
      const std::vector<IntervalRow> rest = without(rows, program);
      const PredictionSpec others = needed_widths(rest, stated);
      const bool speaks = std::any_of(rest.begin(), rest.end(), [&](const auto& row) { return is_of(row, kind); });
      ++check.programs;
      for (const IntervalRow& row : mine) {
        if (row.program != program) continue;
        check.inside += is_inside(row, stated) ? 1 : 0;
        if (!speaks) continue;
        ++check.left_out_rows;
        check.left_out += is_inside(row, others) ? 1 : 0;
      }
    }
    out.push_back(check);
  }
  out.push_back(sum_of(out, rows));
  return out;
}

std::vector<IntervalCheck> check_differences(const std::vector<IntervalRow>& rows, const PredictionSpec& stated) {
  const PredictionSpec needed = needed_widths(rows, stated);
  std::vector<IntervalCheck> out{{"ratio of two plans of one source, GPU- or link-bound", "/prediction/difference",
                                  stated.difference, needed.difference, 0, 0, 0, 0, 0},
                                 {"… of a recording, with a host-bound one", "/prediction/difference_host",
                                  stated.difference_host, needed.difference_host, 0, 0, 0, 0, 0},
                                 {"… of a model, with a host-bound one", "/prediction/difference_model_host",
                                  stated.difference_model_host, needed.difference_model_host, 0, 0, 0, 0, 0}};
  const auto kind_of = [](const Difference& pair) -> std::size_t {
    return !pair.host_bound() ? 0 : pair.of_model() ? 2 : 1;
  };
  for (const std::string& program : programs_of(rows)) {
    const std::vector<IntervalRow> rest = without(rows, program);
    const PredictionSpec others = needed_widths(rest, stated);
    std::array<bool, 3> speaks{};
    for (const Difference& pair : differences(rest)) speaks[kind_of(pair)] = true;
    std::array<bool, 3> any{};
    for (const Difference& pair : differences(rows)) {
      if (pair.a->program != program) continue;
      const std::size_t kind = kind_of(pair);
      IntervalCheck& check = out[kind];
      any[kind] = true;
      ++check.rows;
      check.inside += std::abs(pair.error()) <= pair.width(stated) ? 1 : 0;
      if (!speaks[kind]) continue;
      ++check.left_out_rows;
      check.left_out += std::abs(pair.error()) <= pair.width(others) ? 1 : 0;
    }
    for (std::size_t i = 0; i < out.size(); ++i) out[i].programs += any[i] ? 1 : 0;
  }
  return out;
}

}  // namespace foreshard::accuracy
