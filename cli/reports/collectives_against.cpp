#include "cli/reports/collectives_against.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/reports/collective_doubts.hpp"
#include "cli/reports/collective_sizes.hpp"
#include "core/base/units.hpp"
#include "core/device/collective_names.hpp"
#include "sim/collectives/modelled_collectives.hpp"

namespace foreshard::cli {
namespace {

/// Below it the host's calls decide (docs/collectives.md, "How a price is made").
constexpr Bytes kLarge = 16 * kMiB;

struct Errors {
  std::size_t rows = 0;
  double sum = 0, worst = 0;  ///< worst with its sign

  void add(double error) {
    ++rows;
    sum += std::abs(error);
    if (std::abs(error) > std::abs(worst)) worst = error;
  }
  [[nodiscard]] double mean() const { return rows > 0 ? sum / static_cast<double>(rows) : 0; }
};

struct Summary {
  Errors all, large, in_tables;
};

Summary summary_of(const Against& against) {
  Summary out;
  for (const AgainstRow& row : against.rows) {
    if (row.in_table) {
      out.in_tables.add(row.error());
      continue;
    }
    out.all.add(row.error());
    if (row.measured.bytes >= kLarge) out.large.add(row.error());
  }
  return out;
}

std::string errors_words(const Errors& errors) {
  return fmt::format("mean error {:.1f} %, worst {:+.1f} %", 100 * errors.mean(), 100 * errors.worst);
}

Json errors_json(const Errors& errors) {
  if (errors.rows == 0) return nullptr;
  return {{"rows", errors.rows}, {"mean_error", errors.mean()}, {"worst_error", errors.worst}};
}

std::size_t not_valid_rows(const Against& against) {
  return static_cast<std::size_t>(std::count_if(against.rows.begin(), against.rows.end(),
                                                [](const AgainstRow& row) { return !row.not_valid.empty(); }));
}

/// Each reason once, with the rows that it holds for.
void print_doubts(std::ostream& out, const Against& against) {
  std::vector<std::pair<std::string, std::size_t>> reasons;
  for (const AgainstRow& row : against.rows)
    for (const std::string& text : row.not_valid) {
      const auto known =
          std::find_if(reasons.begin(), reasons.end(), [&](const auto& one) { return one.first == text; });
      if (known != reasons.end()) {
        ++known->second;
      } else {
        reasons.emplace_back(text, 1);
      }
    }
  if (reasons.empty()) return;
  Table table({{"rows", Table::Align::right}, {"not valid"}});
  for (const auto& [text, rows] : reasons) table.row({std::to_string(rows), text});
  out << '\n';
  table.print(out);
}

std::string_view half_word(bool in_place) {
  return in_place ? "in-place" : "out-of-place";
}

/// Which half of nccl-tests' rows stands under "measured", of each collective: "in-place of all-gather".
void print_halves(std::ostream& out, const Against& against) {
  std::set<std::string> halves;
  for (const AgainstRow& row : against.rows)
    if (row.measured.in_place)
      halves.insert(fmt::format("{} of {}", half_word(*row.measured.in_place), dashed_name(row.measured.kind)));
  if (!halves.empty()) out << fmt::format("\nmeasured: nccl-tests' times, {}\n", fmt::join(halves, ", "));
}

/// Who calls decides which price a row is held against: a loop of PyTorch's shows its host's pace, one in C the GPU's.
std::string_view caller_word(const AgainstRow& row) {
  return row.measured.by_pytorch ? "PyTorch" : "C";
}

/// Of the rows that are predicted: "called from C"; empty: there are none.
std::string callers_words(const Against& against) {
  std::size_t from_pytorch = 0, from_c = 0;
  for (const AgainstRow& row : against.rows)
    if (!row.in_table) ++(row.measured.by_pytorch ? from_pytorch : from_c);
  if (from_pytorch == 0) return from_c == 0 ? "" : "called from C";
  if (from_c == 0) return "called from PyTorch, at its host's pace";
  return fmt::format("{} of them called from C, {} from PyTorch, at its host's pace", from_c, from_pytorch);
}

bool has_point(const sim::MachineProfile& machine, const sim::CollectiveSample& sample) {
  return std::any_of(machine.collectives.begin(), machine.collectives.end(), [&](const sim::CollectiveTable& table) {
    return !table.held_out && table.kind == sample.kind && table.transport == sample.transport &&
           table.ranks == sample.ranks && table.ranks_per_node == sample.ranks_per_node &&
           table.of_dtypes(sample.dtype, sample.upcasts) &&
           std::any_of(table.points.begin(), table.points.end(),
                       [&](const sim::CollectiveTable::Point& point) { return point.bytes == sample.bytes; });
  });
}

}  // namespace

double AgainstRow::predicted_us() const {
  return (measured.by_pytorch ? predicted.period : predicted.time).us();
}

double AgainstRow::error() const {
  return predicted_us() / measured.us - 1;
}

Against hold_against(std::string file, const std::vector<sim::CollectiveSample>& samples,
                     const sim::MachineProfile& machine, bool messages) {
  const sim::ModelledCollectives cost(machine);
  Against out{std::move(file), machine.name, {}};
  for (const sim::CollectiveSample& sample : samples) {
    sim::CollectiveRequest request{sample.kind, sample.transport, sample.bytes, sample.ranks, sample.ranks_per_node};
    request.upcasts = sample.upcasts;
    request.dtype = sample.dtype;
    AgainstRow row{sample, cost.price(request), has_point(machine, sample)};
    const std::uint32_t gpus = std::max(1U, std::min(sample.ranks, sample.ranks_per_node));
    row.not_valid =
        doubts(machine, request, row.predicted, {gpus, static_cast<std::uint32_t>(ceil_div(sample.ranks, gpus))});
    if (messages && runs_ring(row.predicted)) row.messages = sim::ring_messages(machine, request);
    out.rows.push_back(std::move(row));
  }
  return out;
}

std::string against_answer(const Against& against) {
  const Summary summary = summary_of(against);
  if (summary.all.rows == 0)
    return summary.in_tables.rows == 1
               ? fmt::format("the only row is a point of {}'s tables: nothing is predicted", against.machine)
               : fmt::format("all {} rows are points of {}'s tables: nothing is predicted", summary.in_tables.rows,
                             against.machine);
  std::string text =
      fmt::format("{} {}, {}, predicted on {}: {}", summary.all.rows, summary.all.rows == 1 ? "row" : "rows",
                  callers_words(against), against.machine, errors_words(summary.all));
  if (summary.large.rows > 0 && summary.large.rows < summary.all.rows)
    text += fmt::format("; the {} from 16 MiB on: {}", summary.large.rows, errors_words(summary.large));
  if (summary.in_tables.rows > 0)
    text += fmt::format("; {} more {} of its tables", summary.in_tables.rows,
                        summary.in_tables.rows == 1 ? "is a point" : "are points");
  if (const std::size_t rows = not_valid_rows(against); rows > 0) text += fmt::format("; {} not valid", rows);
  return text;
}

void print_against(std::ostream& out, const Against& against) {
  constexpr auto kRight = Table::Align::right;
  std::vector<Table::Column> columns{{"collective"},
                                     {"from"},
                                     {"GPUs", kRight},
                                     {"size", kRight},
                                     {"measured, us", kRight},
                                     {"predicted, us", kRight},
                                     {"error", kRight},
                                     {"busbw, GB/s", kRight},
                                     {""},
                                     {"runs as"}};
  const bool messages = std::any_of(against.rows.begin(), against.rows.end(),
                                    [](const AgainstRow& row) { return row.messages.has_value(); });
  if (messages)
    columns.insert(columns.end() - 1, {{"messages, us", kRight}, {"to the measured", kRight}, {"slowest hop"}});
  Table table(columns);
  for (const AgainstRow& row : against.rows) {
    const sim::CollectiveSample& sample = row.measured;
    std::vector<std::string> cells{fmt::format("{} {}", name(sample.transport), dashed_name(sample.kind)),
                                   std::string(caller_word(row)),
                                   std::to_string(sample.ranks),
                                   format_bytes(sample.bytes),
                                   fmt::format("{:.2f}", sample.us),
                                   fmt::format("{:.2f}", row.predicted_us()),
                                   fmt::format("{:+.1f} %", 100 * row.error()),
                                   fmt::format("{:.1f}", sample.bus_gb_per_s()),
                                   row.in_table ? "in its tables" : "",
                                   row.predicted.path};
    if (messages) {
      const auto of_ring = [&](auto text) { return row.messages ? text(*row.messages) : std::string{}; };
      cells.insert(cells.end() - 1, {of_ring([](const auto& ring) { return fmt::format("{:.2f}", ring.time.us()); }),
                                     of_ring([&](const auto& ring) { return change(sample.us, ring.time.us()); }),
                                     of_ring([](const auto& ring) { return slowest_hop(ring); })});
    }
    table.row(cells);
  }
  out << against_answer(against) << "\n\n";
  table.print(out);
  print_halves(out, against);
  print_doubts(out, against);
}

Json against_json(const Against& against) {
  const Summary summary = summary_of(against);
  Json json{{"answer", against_answer(against)},
            {"machine", against.machine},
            {"against", against.file},
            {"predicted", errors_json(summary.all)},
            {"predicted_from_16_mib", errors_json(summary.large)},
            {"in_tables", errors_json(summary.in_tables)},
            {"rows", Json::array()}};
  for (const AgainstRow& row : against.rows) {
    const sim::CollectiveSample& sample = row.measured;
    json["rows"].push_back({{"collective", dashed_name(sample.kind)},
                            {"transport", name(sample.transport)},
                            {"called_from", caller_word(row)},
                            {"ranks", sample.ranks},
                            {"ranks_per_node", sample.ranks_per_node},
                            {"bytes", sample.bytes},
                            {"measured_us", sample.us},
                            {"measured_half", sample.in_place ? Json(half_word(*sample.in_place)) : Json(nullptr)},
                            {"predicted_us", row.predicted_us()},
                            {"error", row.error()},
                            {"measured_bus_gb_per_s", sample.bus_gb_per_s()},
                            {"in_table", row.in_table},
                            {"path", row.predicted.path},
                            {"valid", row.not_valid.empty()},
                            {"not_valid", row.not_valid}});
    if (row.messages) json["rows"].back()["messages"] = messages_json(*row.messages);
  }
  return json;
}

}  // namespace foreshard::cli
