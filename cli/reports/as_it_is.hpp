// What remedies begin with: the run's own settings, simulated.
#pragma once

#include <string>

#include "cli/terminal/output.hpp"
#include "core/run/run.hpp"

namespace foreshard::cli {

/// The name of the row: "as it is", or where it is not as it was "if rank 5 keeps up" (keeps_up_words()).
[[nodiscard]] std::string as_it_is(const Run& run);

/// Words that begin a sentence: the first one's letter a capital, where it is one of ASCII's.
[[nodiscard]] std::string capitalised(std::string words);

/// That rank; null where there is none.
[[nodiscard]] Json keeps_up_json(const Run& run);

}  // namespace foreshard::cli
