#include "accuracy/contention_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "accuracy/contention_rows_data.hpp"
#include "accuracy/data_fields.hpp"
#include "core/base/check.hpp"
#include "core/device/collective_names.hpp"
#include "core/kernel/kernel_enum_names.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/engine/engine.hpp"

namespace foreshard::accuracy {
namespace {

struct Row {
  ContentionCheck check;
  sim::KernelDemand demand;
  sim::CollectiveDemand other;
  Nanoseconds kernel_time;
  Nanoseconds other_time;
};

double factor(const std::string& word) {
  return word == "-" ? 0 : std::stod(word);
}

Row parse(const sim::MachineProfile& machine, const std::string& line) {
  Row row;
  std::string how, kernel, kernel_class, transport, kind, kernel_factor, other_factor;
  std::uint32_t tiles = 0;
  sim::CollectiveRequest request;
  double memory = 0, time = 0, full_clock = 0, other = 0;
  std::istringstream in(line);
  in >> how >> kernel >> kernel_class >> tiles >> memory >> time >> full_clock >> transport >> kind >> request.ranks >>
      request.bytes >> other >> kernel_factor >> other_factor;
  FORESHARD_CHECK(!in.fail(), "contention_rows.txt: fourteen words a row");
  row.check.how = how == "rows" ? ContentionCheck::How::rows : ContentionCheck::How::covered;
  sim::KernelPrice price;
  price.kernel_class = static_cast<KernelClass>(word_field(kDashedNames<KernelClass>, kernel_class));
  price.tiles = tiles;
  price.memory_share = memory * machine.contention.memory_bandwidth / machine.peaks.memory_bandwidth;
  row.demand = kernel_demand(machine, {}, price);
  row.demand.clock = full_clock / time;
  request.kind = static_cast<CollectiveKind>(word_field(kDashedNames<CollectiveKind>, kind));
  constexpr std::array<std::string_view, 3> kResources{"ring", "symmetric", "copy-engine"};
  sim::CollectivePrice cost;
  const std::size_t colon = transport.find(':');
  if (colon != std::string::npos) cost.sms = std::stod(transport.substr(colon + 1));
  row.check.name = fmt::format("{} {} {}", kernel, transport, kind);
  transport = transport.substr(0, colon);
  cost.uses = transport == "nccl" ? sim::CollectiveResource::ring
                                  : static_cast<sim::CollectiveResource>(word_field(kResources, transport));
  cost.time = row.other_time = Nanoseconds::from_double(1e3 * other);
  row.other = collective_demand(machine, request, cost);
  row.kernel_time = Nanoseconds::from_double(1e3 * time);
  row.check.kernel_measured = factor(kernel_factor);
  row.check.collective_measured = factor(other_factor);
  return row;
}

std::vector<Row> rows(const sim::MachineProfile& machine) {
  std::istringstream file{std::string(kContentionRows)};
  std::vector<Row> out;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') out.push_back(parse(machine, line));
  // What was asked for as zero-CTA reduce-scatter ran as the symmetric one: a second measurement of it.
  std::map<std::pair<ContentionCheck::How, std::string>, int> seen;
  for (Row& row : out)
    if (++seen[{row.check.how, row.check.name}] > 1) row.check.name += " again";
  return out;
}

struct Factors {
  double kernel = 1;
  double other = 1;
};

/// Both at once for so long that neither ends.
Factors covered(const sim::MachineProfile& machine, const Row& row) {
  const std::array<sim::RunningOp, 2> running{sim::RunningOp{sim::RunningOp::Role::main_kernel, row.demand, {}},
                                              sim::RunningOp{sim::RunningOp::Role::collective, {}, row.other}};
  const std::int64_t work = row.kernel_time.count << sim::kWorkShift;
  constexpr std::int64_t kForEver = std::int64_t{1} << 60;
  std::array<std::int64_t, 2> rates{};
  fill_rates(machine, running, std::array{sim::Share{work, work}, sim::Share{kForEver, kForEver}}, rates);
  const auto full = static_cast<double>(sim::kFullRate);
  return {full / static_cast<double>(rates[0]), full / static_cast<double>(rates[1])};
}

/// A row of `kernels` and one of `others` from the same moment on: mean time of each, in ns.
Factors side_by_side(const sim::MachineProfile& machine, const Row& row, int kernels, int others) {
  sim::OpTable table;
  const StreamId compute = table.add_stream();
  const StreamId stream = table.add_stream();
  const CommunicatorId world = table.add_communicator();
  for (int i = 0; i < others; ++i)
    table.submit({.stream = stream,
                  .communicator = world,
                  .running_op = {sim::RunningOp::Role::collective, {}, row.other},
                  .work = row.other_time});
  for (int i = 0; i < kernels; ++i)
    table.submit({.stream = compute,
                  .communicator = {},
                  .running_op = {sim::RunningOp::Role::main_kernel, row.demand, {}},
                  .work = row.kernel_time});
  sim::Engine engine(machine, table);
  for (int i = 0; i < kernels + others; ++i) engine.issue({});
  while (engine.advance_once()) {
  }
  const auto span = [&](int first, int count) {
    const auto timings = engine.timings().subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    return static_cast<double>((timings.back().end - timings.front().start).count) / count;
  };
  return {span(others, kernels), span(0, others)};
}

/// As the bench did: each kind in turn runs for longer than the other, which is what is timed.
Factors in_rows(const sim::MachineProfile& machine, const Row& row) {
  const double ratio = static_cast<double>(row.kernel_time.count) / static_cast<double>(row.other_time.count);
  const int kernels = row.demand.tiles > 0 ? 40 : 150;
  const double kernel =
      side_by_side(machine, row, kernels, std::max(4, static_cast<int>(kernels * ratio * 2.5))).kernel;
  const double other = side_by_side(machine, row, std::max(4, static_cast<int>(10 / ratio * 2.5)), 10).other;
  return {kernel / static_cast<double>(row.kernel_time.count), other / static_cast<double>(row.other_time.count)};
}

}  // namespace

std::vector<ContentionCheck> check_contention(const sim::MachineProfile& machine) {
  std::vector<ContentionCheck> out;
  for (Row& row : rows(machine)) {
    const Factors model = row.check.how == ContentionCheck::How::rows ? in_rows(machine, row) : covered(machine, row);
    row.check.kernel_model = model.kernel;
    row.check.collective_model = model.other;
    out.push_back(std::move(row.check));
  }
  return out;
}

}  // namespace foreshard::accuracy
