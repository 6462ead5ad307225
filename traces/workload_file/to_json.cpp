#include <fmt/core.h>

#include <algorithm>
#include <bitset>

#include "core/run/run_names.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/workload_file/kernel_text.hpp"
#include "traces/workload_file/record_tables.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::traces {
namespace {

/// The label of an op's kernel or copy is the op's own where it has one of that kind.
bool left_out(const Op& op, std::size_t index) {
  if (index == op_field::kernel_label && op.kind == OpKind::kernel) return op.kernel.label == op.label;
  if (index == op_field::copy_label && op.kind == OpKind::copy) return op.copy.label == op.label;
  return kOpFields[index].is_default(op);
}

void write_op(std::string& out, const Op& op, const Program& program, const KernelTable& kernels) {
  const OpForm& form = kOpForms[static_cast<std::size_t>(op.kind)];
  std::size_t count = form.count;
  while (count > form.required && kOpFields[form.positions[count - 1]].is_default(op)) --count;
  out += '[';
  write_value(out, op.kind);
  std::bitset<kOpFields.size()> written;
  for (std::size_t i = 0; i < form.count; ++i) {
    written.set(form.positions[i]);
    if (i >= count) continue;
    out += ',';
    kOpFields[form.positions[i]].write(out, op);
  }
  std::string_view separator = ",{";
  for (std::size_t i = 0; i < kOpFields.size(); ++i) {
    if (written.test(i) || left_out(op, i)) continue;
    out += separator;
    write_value(out, kOpFields[i].key);
    out += ':';
    kOpFields[i].write(out, op);
    separator = ",";
  }
  if (has_kernel(program, op)) {
    out += separator;
    write_value(out, kComputesKey);
    out += ':';
    kernels.write(out, program, op);
    separator = ",";
  }
  out += separator == "," ? "}]" : "]";
}

/// "[", one item a line, "]"; or other brackets.
template <class Items, class Write>
void write_lines(std::string& out, const Items& items, std::string_view indent, Write&& write,
                 std::string_view brackets = "[]") {
  out += brackets[0];
  std::string_view separator = "\n";
  for (const auto& item : items) {
    out += separator;
    out += indent;
    write(item);
    separator = ",\n";
  }
  if (!items.empty()) out += fmt::format("\n{}", indent.substr(1));
  out += brackets[1];
}

void begin_member(std::string& out, std::string_view key) {
  out += ",\n ";
  write_value(out, key);
  out += ": ";
}

void write_program(std::string& out, const Program& program, std::string_view indent, const KernelTable& kernels) {
  write_lines(out, program.ops, indent, [&](const Op& op) { write_op(out, op, program, kernels); });
}

void write_settings(std::string& out, const Settings& settings) {
  begin_member(out, "settings");
  const auto write = [&](const auto& setting) {
    write_value(out, setting.first);
    out += ": " + setting.second;
  };
  write_lines(out, setting_options(settings), "  ", write, "{}");
}

void write_units(std::string& out, const std::vector<Unit>& units) {
  begin_member(out, "units");
  write_lines(out, units, "  ", [&](const Unit& unit) {
    out += "{\"name\": ";
    write_value(out, unit.name);
    out += ", \"parameters\": ";
    write_lines(out, unit.parameters, "   ", [&](const Parameter& p) { write_array(out, kParameterForm, p); });
    if (!unit.groups.empty()) {
      out += ", \"groups\": ";
      write_value(out, unit.groups);
    }
    out += '}';
  });
}

void write_sections(std::string& out, const std::vector<SectionCost>& sections) {
  begin_member(out, "sections");
  write_lines(out, sections, "  ", [&](const SectionCost& cost) {
    out += "{\"items\": ";
    write_lines(out, cost.items, "   ", [&](const SectionItem& item) { write_array(out, kItemForm, item); });
    out += ", \"section\": ";
    write_value(out, cost.section);
    write_members(out, std::span(kSectionFields).subspan(1), cost, ", ");
    out += '}';
  });
}

void write_initial_segments(std::string& out, const std::vector<SnapshotSegment>& segments) {
  begin_member(out, "initial_segments");
  write_lines(out, segments, "  ", [&](const SnapshotSegment& segment) {
    out += "{\"blocks\": ";
    write_lines(out, segment.blocks, "   ", [&](const SnapshotBlock& block) { write_array(out, kBlockForm, block); });
    write_members(out, std::span(kSegmentFields), segment, ", ");
    out += '}';
  });
}

}  // namespace

std::string to_json(const Workload& workload) {
  std::string out = "{\n \"format\": ";
  write_value(out, kWorkloadFormat);
  out += fmt::format(",\n \"schema\": {}", kWorkloadSchema);
  write_members(out, std::span(kWorkloadFields), workload, ",\n ");
  write_settings(out, workload.settings);
  write_units(out, workload.units);
  if (!workload.process_groups.empty()) {
    begin_member(out, "process_groups");
    write_lines(out, workload.process_groups, "  ",
                [&](const ProcessGroup& group) { write_array(out, kProcessGroupForm, group); });
  }
  if (!workload.labels.texts().empty()) {
    begin_member(out, "labels");
    write_lines(out, workload.labels.texts(), "  ", [&](const std::string& text) { write_value(out, text); });
  }
  const KernelTable kernels(workload);
  if (!kernels.texts().empty()) {
    begin_member(out, "computations");
    write_lines(out, kernels.texts(), "  ", [&](const std::string& text) { out += text; });
  }
  if (workload.measured) {
    begin_member(out, "measured");
    std::string members;
    write_members(members, std::span(kMeasuredFields), *workload.measured, ", ");
    out += '{' + (members.empty() ? members : members.substr(2)) + '}';
  }
  if (!workload.initial_segments.empty()) write_initial_segments(out, workload.initial_segments);
  if (!workload.returns.late.empty()) {
    begin_member(out, "late_returns");
    write_lines(out, workload.returns.late, "  ",
                [&](const RecordedReturns::Late& late) { write_array(out, kLateForm, late); });
  }
  if (!workload.recorded.empty()) {
    begin_member(out, "recorded_steps");
    write_lines(out, workload.recorded, "  ",
                [&](const RecordedStep& step) { write_array(out, kRecordedStepForm, step); });
  }
  if (!workload.rank_shapes.empty()) {
    begin_member(out, "rank_shapes");
    write_lines(out, workload.rank_shapes, "  ",
                [&](const RankShape& rank) { write_array(out, kRankShapeForm, rank); });
  }
  const auto has_loss = [](const Program& step) { return step.loss.valid(); };
  if (std::any_of(workload.steps.begin(), workload.steps.end(), has_loss)) {
    begin_member(out, "losses");
    std::vector<TensorId> losses;
    for (const Program& step : workload.steps) losses.push_back(step.loss);
    write_value(out, losses);
  }
  if (!workload.sections.empty()) write_sections(out, workload.sections);
  if (!workload.setup.ops.empty()) {
    begin_member(out, "setup");
    write_program(out, workload.setup, "  ", kernels);
  }
  begin_member(out, "steps");
  write_lines(out, workload.steps, "  ", [&](const Program& step) { write_program(out, step, "   ", kernels); });
  return out + "\n}\n";
}

}  // namespace foreshard::traces
