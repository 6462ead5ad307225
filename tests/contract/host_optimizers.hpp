// The reference of the optimizers' ops: adam, sgd and the foreach passes (core/kernel/kernel.hpp).
#pragma once

#include <span>

#include "core/kernel/kernel.hpp"

namespace foreshard {

/// As run_on_host, which calls it.
void optimize_on_host(const Kernel& kernel, std::span<const Address> addresses);

}  // namespace foreshard
