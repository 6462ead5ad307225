// The reference of the optimizers' functions: adam, sgd and the foreach passes (core/kernel/computation.hpp).
#pragma once

#include <span>

#include "core/kernel/computation.hpp"

namespace foreshard {

/// As run_on_host, which calls it.
void optimize_on_host(const Computation& computation, std::span<const Address> addresses);

}  // namespace foreshard
