// Prices and demands of kernels that come without a time: the layers of a model ask for the same ones again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "core/base/labels.hpp"
#include "core/kernel/kernel_work.hpp"
#include "sim/engine/demand.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

class KernelPrices {
 public:
  struct Priced {
    Nanoseconds time;
    KernelClass kernel_class = KernelClass::memory_bound;
    KernelDemand demand;
    std::uint32_t index = 0;  ///< in order of first use
  };

  /// `labels`: texts of the kernels' labels; null: none. Both must outlive this.
  KernelPrices(const MachineProfile& machine, const Labels* labels) : machine_(machine), labels_(labels) {}

  /// price_kernel() and kernel_demand() of `work`, which needs_price(); valid until this ends.
  [[nodiscard]] const Priced& of(const KernelWork& work);

 private:
  struct Hash {
    std::size_t operator()(const KernelWork& work) const;
  };
  struct Equal {
    bool operator()(const KernelWork& a, const KernelWork& b) const;
  };

  const MachineProfile& machine_;
  const Labels* labels_;
  std::unordered_map<KernelWork, Priced, Hash, Equal> priced_;  // lookup only
};

}  // namespace foreshard::sim
