// Equality of two workloads field by field, and a generator of random ones, for the file's tests.
#pragma once

#include <cstdint>
#include <string>

#include "core/workload/workload.hpp"

namespace foreshard::traces::test {

/// The first difference of two workloads, or an empty text.
[[nodiscard]] std::string difference(const Workload& a, const Workload& b);

/// A workload that check_workload accepts, with something random in every field. The same seed gives the
/// same workload.
[[nodiscard]] Workload random_workload(std::uint64_t seed, std::size_t ops_per_program);

}  // namespace foreshard::traces::test
