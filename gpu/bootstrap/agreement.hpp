// Whether the ranks that came belong to one run: numbers, places on their hosts, settings. Used by the rendezvous
// server. Pure.
#pragma once

#include <optional>
#include <span>

#include "gpu/bootstrap/failure.hpp"
#include "gpu/bootstrap/message.hpp"

namespace foreshard::gpu {

/// What is wrong with one rank's own numbers in a run of `ranks`; `kind` is mismatch.
[[nodiscard]] std::optional<RunFailure> check_numbers(const Hello& hello, std::uint32_t ranks);

/// What is wrong among all ranks (`hellos` by rank), the lowest rank first. Ranks of one host are consecutive and know
/// it. Settings: the reference is what most ranks have, of equals the one of the lowest rank; the first rank that
/// departs from it is named with the first key that differs.
[[nodiscard]] std::optional<RunFailure> first_disagreement(std::span<const Hello> hellos);

}  // namespace foreshard::gpu
