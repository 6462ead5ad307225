#include "sim/engine/kernel_prices.hpp"

#include <functional>
#include <tuple>

#include "sim/compute/price_kernel.hpp"

namespace foreshard::sim {
namespace {

/// Names every member, so that one that is added does not compile until it is compared here.
auto fields(const KernelWork& work) {
  const auto& [kernel_class, time, bytes, ring_slowdown, label, math] = work;
  return std::tie(kernel_class, time, bytes, ring_slowdown, label, math);
}

}  // namespace

std::size_t KernelPrices::Hash::operator()(const KernelWork& work) const {
  std::size_t hash = 0;
  for (const std::uint64_t part :
       {work.bytes, std::uint64_t{work.label.value}, std::uint64_t{work.math.batch}, work.math.m, work.math.n,
        work.math.k, static_cast<std::uint64_t>(work.kernel_class) << 8 | static_cast<std::uint64_t>(work.math.kind)})
    hash = hash * 0x9e3779b97f4a7c15u + std::hash<std::uint64_t>()(part);
  return hash;
}

bool KernelPrices::Equal::operator()(const KernelWork& a, const KernelWork& b) const {
  return fields(a) == fields(b);
}

const KernelPrices::Priced& KernelPrices::of(const KernelWork& work) {
  const auto [found, added] = priced_.try_emplace(work);
  if (!added) return found->second;
  const auto label = labels_ != nullptr ? labels_->text(work.label) : std::string_view();
  const KernelPrice price = price_kernel(machine_, work, label);
  found->second = {price.time, price.kernel_class, kernel_demand(machine_, work, price),
                   static_cast<std::uint32_t>(priced_.size() - 1)};
  return found->second;
}

}  // namespace foreshard::sim
