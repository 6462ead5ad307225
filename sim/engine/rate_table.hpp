// The rates of every pair of an op of the compute stream and one beside it of one op table, each found once.
//
// Who: sim/ranks/job.cpp makes one for each program, before its ranks' engines, which ask it on any thread. Filled as
// it is asked: an entry depends on its pair alone, so that who asks first changes nothing. The table must not grow
// meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/engine/op_table.hpp"

namespace foreshard::sim {

class RateTable {
 public:
  /// Both must outlive it.
  RateTable(const MachineProfile& machine, const OpTable& table);

  /// What the op beside the compute stream's is: as it was put there, early(), or waiting().
  enum class As : std::uint8_t { put = 0, early = 1, waiting = 2 };
  /// Of ops by OpTable::Op::running_op; null where the two are no such pair, or the table has too many of them.
  [[nodiscard]] const PairRates* of(std::uint32_t kernel, std::uint32_t other, As as) {
    const std::uint32_t row = places_[kernel].row;
    const std::uint32_t column = places_[other].column;
    if (row == kNone || column == kNone) return nullptr;
    Entry& entry = entries_[row * columns_ + column + static_cast<std::uint32_t>(as)];
    if (!entry.known.load(std::memory_order_acquire)) find(entry, kernel, other, as);
    return &entry.rates;
  }

 private:
  static constexpr std::uint32_t kWays = 3;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Place {
    std::uint32_t row = kNone;     // on the compute stream
    std::uint32_t column = kNone;  // beside it; the next ones are a collective's as something else
  };
  struct Entry {
    PairRates rates;
    std::atomic<bool> known = false;
  };

  void find(Entry& entry, std::uint32_t kernel, std::uint32_t other, As as);

  const MachineProfile& machine_;
  const OpTable& table_;
  std::vector<Place> places_;  // by running op
  std::uint32_t columns_ = 0;
  std::unique_ptr<Entry[]> entries_;
  std::mutex finding_;
};

}  // namespace foreshard::sim
