#include "sim/engine/rate_table.hpp"

namespace foreshard::sim {
namespace {

/// Some MiB. A model has thousands of pairs; a long recording whose kernels are all unlike is played without a table.
constexpr std::size_t kMaxEntries = std::size_t{1} << 16;

}  // namespace

RateTable::RateTable(const MachineProfile& machine, const OpTable& table)
    : machine_(machine), table_(table), places_(table.running_ops().size()) {
  std::uint32_t rows = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const RunningOp::Role role = table.running_ops()[i].role;
    if (role == RunningOp::Role::main_kernel || role == RunningOp::Role::apart) places_[i].row = rows++;
    if (role != RunningOp::Role::main_kernel) places_[i].column = kWays * columns_++;
  }
  columns_ *= kWays;
  if (std::size_t{rows} * columns_ > kMaxEntries)
    places_.assign(places_.size(), {});
  else
    entries_ = std::make_unique<Entry[]>(std::size_t{rows} * columns_);
}

void RateTable::find(Entry& entry, std::uint32_t kernel, std::uint32_t other, As as) {
  const std::lock_guard lock(finding_);
  if (entry.known.load(std::memory_order_relaxed)) return;
  const RunningOp& beside = table_.running_ops()[other];
  const RunningOp& main = table_.running_ops()[kernel];
  entry.rates = pair_rates(machine_, main,
                           as == As::waiting ? waiting(beside)
                           : as == As::early ? early(beside)
                                             : beside);
  entry.known.store(true, std::memory_order_release);
}

}  // namespace foreshard::sim
