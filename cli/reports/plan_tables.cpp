#include "cli/reports/plan_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/reports/phase_table.hpp"
#include "core/base/add_up.hpp"
#include "core/base/units.hpp"
#include "core/explain/explanation.hpp"
#include "core/explain_time/time_words.hpp"
#include "core/run/phase_words.hpp"
#include "core/run/run_names.hpp"
#include "sim/parallel/for_each.hpp"

namespace foreshard::cli {
namespace {

/// Categories below this share of the peak, and those behind so many, are one row together.
constexpr double kSmall = 0.005;
constexpr std::size_t kCategories = 6;

/// What lies between phases has a row where two decimals show it.
constexpr Nanoseconds kShown{5'000};

/// Empty: none, or no time.
std::vector<WaitedKind> waits(const sim::Prediction& p, const PlanTime& time) {
  return time ? waited_kinds(p.run, *time) : std::vector<WaitedKind>{};
}

void print_memory(std::ostream& out, const PlanMemory& memory) {
  constexpr auto kRight = Table::Align::right;
  std::string title = "memory at the peak";
  if (memory.step >= 0) title += fmt::format(" (step {}, {})", memory.step, phase_title(memory.phase));
  Table table({{title}, {"", kRight}, {"", kRight}});
  const auto whole = static_cast<double>(memory.reserved);
  std::vector<std::pair<std::string, Bytes>> rows;
  Bytes small = 0;
  std::size_t shown = 0;
  for (const PlanMemory::Row& row : memory.rows) {
    const bool held = row.what == "free" || row.what == "pending_free" || row.what == "graph_pool";
    if (!held && (static_cast<double>(row.bytes) < kSmall * whole || ++shown > kCategories)) {
      small += row.bytes;
      continue;
    }
    if (held && small > 0) {
      rows.emplace_back("smaller ones", small);
      small = 0;
    }
    rows.emplace_back(row.what, row.bytes);
  }
  std::vector<double> bytes;
  std::vector<Bytes> parts;
  for (const auto& [what, of] : rows) {
    bytes.push_back(static_cast<double>(of));
    parts.push_back(of);
  }
  const std::vector<double> shares = shares_of(bytes, 1);
  parts = add_up(parts, memory.reserved);
  for (std::size_t i = 0; i < rows.size(); ++i)
    table.row({"  " + rows[i].first, format_bytes_fixed(parts[i]), fmt::format("{:.1f} %", shares[i])});
  table.row({"reserved", format_bytes_fixed(memory.reserved), "100.0 %"});
  out << '\n';
  table.print(out);
}

void print_times(std::ostream& out, const std::vector<PhaseTime>& rows) {
  std::vector<PhaseTime> shown;
  for (const PhaseTime& row : rows)
    if (!row.phase.empty() || row.sum() >= kShown) shown.push_back(row);
  print_phase_table(out, "time of a step, ms", shown, total(rows));
  constexpr double kNoted = 0.02;  // of the step
  for (const PhaseTime& row : shown)
    if (row.phase.empty() && row.sum().ms() > kNoted * total(rows).sum().ms())
      out << "between phases: what the program does there, as the loss and gradient clipping\n";
}

/// Of programs with collectives that FSDP2 has not: which of them the compute stream waits for.
void print_waits(std::ostream& out, const std::vector<WaitedKind>& kinds) {
  if (std::all_of(kinds.begin(), kinds.end(), [](const WaitedKind& one) { return of_fsdp(one.kind); })) return;
  std::string line;
  for (const WaitedKind& one : kinds)
    line += fmt::format("{}{} {:.2f}", line.empty() ? "" : ", ", dashed_name(one.kind), one.time.ms());
  out << "\nwaited for by kind, ms: " << line << " (the compute stream's waits; exposed communication is whatever a "
      << "collective runs for beside no kernel, also while the host is late)\n";
}

Json row_json(const PhaseTime& row) {
  return {{"phase", row.phase.empty() ? Json(nullptr) : Json(row.phase)},
          {"compute_ms", row.compute.ms()},
          {"exposed_communication_ms", row.exposed_communication.ms()},
          {"waits_for_host_ms", row.host.ms()},
          {"other_ms", row.other.ms()},
          {"sum_ms", row.sum().ms()}};
}

}  // namespace

std::optional<PlanMemory> memory_table(const sim::Prediction& p) {
  ExplainRequest request;
  request.largest = 0;
  if (!p.out_of_memory && !p.steps.empty()) request.step = static_cast<std::int32_t>(sim::largest_step(p.steps));
  if (p.out_of_memory && p.out_of_memory_step < 0) request.whole_run = true;
  const auto peak = explain_reserved_peak(p.run, request);
  if (!peak) return std::nullopt;
  PlanMemory out;
  out.step = peak->step;
  out.phase = peak->phase;
  Bytes live = 0;
  Bytes pending = 0;
  for (const auto& part : peak->categories) {
    if (part.live > 0) out.rows.push_back({std::string(category_name(part.key)), part.live});
    live += part.live;
    pending += part.pending;
  }
  out.reserved = peak->at.parts.reserved();
  if (pending > 0) out.rows.push_back({"pending_free", pending});
  if (out.reserved < live + pending) return std::nullopt;
  const Bytes idle = out.reserved - live - pending;
  const Bytes of_graph = std::min(idle, p.graph_pool.unseen());  // replays write there
  if (of_graph > 0) out.rows.push_back({"graph_pool", of_graph});
  out.rows.push_back({"free", idle - of_graph});
  return out;
}

PlanTime plan_time(const sim::Prediction& p) {
  if (!p.has_time || p.cycle > 1 || p.step_ms <= 0) return std::nullopt;
  auto found = explain_time(p.run, {}, SlowedKernels::left_out);  // no table has them
  if (!found) return std::nullopt;
  return std::move(*found);
}

PlanTables plan_tables(const sim::Prediction& p) {
  PlanTables out;
  const std::array<std::function<void()>, 2> both{[&] { out.time = plan_time(p); },
                                                  [&] { out.memory = memory_table(p); }};
  sim::for_each(both.size(), sim::hardware_threads(), [&](std::size_t i) { both[i](); });
  return out;
}

std::string most_exposed(const sim::Prediction& p, const PlanTime& time) {
  if (!time) return {};
  if (p.run.settings.expert_parallel > 1) {
    const std::vector<WaitedKind> kinds = waits(p, time);
    if (kinds.empty()) return {};
    return fmt::format("{}s, {:.2f} ms together", dashed_name(kinds.front().kind), kinds.front().time.ms());
  }
  std::map<std::size_t, Nanoseconds> waited;
  for (const IdlePart& part : time->parts)
    if (is_communication(part.cause) && part.cause != IdleCause::late_rank && part.op != kNoDeviceOp)
      waited[part.op] += part.length();
  const auto most =
      std::max_element(waited.begin(), waited.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == waited.end()) return {};
  return fmt::format("{}, {:.2f} ms", op_words(p.run, most->first), most->second.ms());
}

void print_plan_tables(std::ostream& out, const sim::Prediction& p, const PlanTables& tables) {
  const PlanTime& time = tables.time;
  if (tables.memory) print_memory(out, *tables.memory);
  if (time) print_times(out, phase_times(p.run, *time));
  print_waits(out, waits(p, time));
}

void add_plan_tables(const sim::Prediction& p, const PlanTables& tables, Json& json) {
  const PlanTime& time = tables.time;
  json["memory_at_peak"] = nullptr;
  if (const auto& memory = tables.memory) {
    Json rows = Json::object();
    for (const PlanMemory::Row& row : memory->rows) rows[row.what] = row.bytes;
    json["memory_at_peak"] = {{"step", memory->step},
                              {"phase", memory->phase.empty() ? Json(nullptr) : Json(memory->phase)},
                              {"bytes", std::move(rows)},
                              {"reserved_bytes", memory->reserved}};
  }
  json["time_by_phase"] = nullptr;
  if (time) {
    json["time_by_phase"] = Json::array();
    for (const PhaseTime& row : phase_times(p.run, *time)) json["time_by_phase"].push_back(row_json(row));
  }
  json["waited_for_by_kind_ms"] = Json::object();
  for (const WaitedKind& one : waits(p, time))
    json["waited_for_by_kind_ms"][std::string(dashed_name(one.kind))] = one.time.ms();
}

}  // namespace foreshard::cli
