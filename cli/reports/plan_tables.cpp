#include "cli/reports/plan_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/units.hpp"
#include "core/explain/explanation.hpp"
#include "core/explain_time/time_words.hpp"
#include "core/workload/workload_names.hpp"

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

std::string share(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0);
}

void print_memory(std::ostream& out, const PlanMemory& memory) {
  constexpr auto kRight = Table::Align::right;
  std::string title = "memory at the peak";
  if (memory.step >= 0)
    title += fmt::format(" (step {}{})", memory.step, memory.phase.empty() ? "" : ", " + memory.phase);
  Table table({{title}, {"", kRight}, {"", kRight}});
  const auto whole = static_cast<double>(memory.reserved);
  Bytes small = 0;
  std::size_t shown = 0;
  for (const PlanMemory::Row& row : memory.rows) {
    const bool held = row.what == "free" || row.what == "pending_free" || row.what == "graph_pool";
    if (!held && (static_cast<double>(row.bytes) < kSmall * whole || ++shown > kCategories)) {
      small += row.bytes;
      continue;
    }
    if (held && small > 0) {
      table.row({"  smaller ones", format_bytes_fixed(small), share(static_cast<double>(small), whole)});
      small = 0;
    }
    table.row({"  " + row.what, format_bytes_fixed(row.bytes), share(static_cast<double>(row.bytes), whole)});
  }
  table.row({"reserved", format_bytes_fixed(memory.reserved), "100.0 %"});
  out << '\n';
  table.print(out);
}

void print_times(std::ostream& out, const std::vector<PhaseTime>& rows) {
  constexpr auto kRight = Table::Align::right;
  Table table({{"time of a step, ms"},
               {"compute", kRight},
               {"exposed communication", kRight},
               {"host", kRight},
               {"other", kRight},
               {"sum", kRight}});
  const auto add = [&](const std::string& what, const PhaseTime& row) {
    const auto ms = [](Nanoseconds time) { return fmt::format("{:.2f}", time.ms()); };
    table.row({what, ms(row.compute), ms(row.exposed_communication), ms(row.host), ms(row.other), ms(row.sum())});
  };
  for (const PhaseTime& row : rows)
    if (!row.phase.empty() || row.sum() >= kShown) add("  " + (row.phase.empty() ? "between phases" : row.phase), row);
  add("step", total(rows));
  out << '\n';
  table.print(out);
}

/// Of programs with collectives that FSDP2 has not: which of them the compute stream waits for.
void print_waits(std::ostream& out, const std::vector<WaitedKind>& kinds) {
  if (std::all_of(kinds.begin(), kinds.end(), [](const WaitedKind& one) { return of_fsdp(one.kind); })) return;
  std::string line;
  for (const WaitedKind& one : kinds)
    line += fmt::format("{}{} {:.2f}", line.empty() ? "" : ", ", dashed_name(one.kind), one.time.ms());
  out << "\nwaited for by kind, ms: " << line << '\n';
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

std::optional<PlanMemory> plan_memory_table(const sim::Prediction& p) {
  ExplainRequest request;
  request.largest = 0;
  if (!p.out_of_memory && !p.steps.empty()) request.step = static_cast<std::int32_t>(sim::largest_step(p.steps));
  if (p.out_of_memory && p.out_of_memory_step < 0) request.whole_run = true;
  const auto explanation = explain(p.run, request);
  if (!explanation) return std::nullopt;
  const Moment& peak = explanation->reserved_peak;
  PlanMemory out;
  out.step = peak.step;
  out.phase = peak.phase;
  Bytes live = 0;
  Bytes pending = 0;
  for (const auto& part : peak.categories) {
    if (part.live > 0) out.rows.push_back({std::string(name(part.key)), part.live});
    live += part.live;
    pending += part.pending;
  }
  out.reserved = peak.at.parts.reserved();
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
  auto found = explain_time(p.run);
  if (!found) return std::nullopt;
  return std::move(*found);
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
    if (is_communication(part.cause) && part.op != kNoDeviceOp) waited[part.op] += part.length();
  const auto most =
      std::max_element(waited.begin(), waited.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == waited.end()) return {};
  return fmt::format("{}, {:.2f} ms", op_words(p.run, most->first), most->second.ms());
}

void print_plan_tables(std::ostream& out, const sim::Prediction& p, const PlanTime& time) {
  if (const auto memory = plan_memory_table(p)) print_memory(out, *memory);
  if (time) print_times(out, phase_times(p.run, *time));
  print_waits(out, waits(p, time));
}

void add_plan_tables(const sim::Prediction& p, const PlanTime& time, Json& json) {
  json["memory_at_peak"] = nullptr;
  if (const auto memory = plan_memory_table(p)) {
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
