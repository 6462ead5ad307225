// A verb with the table of its options, as completion scripts and man pages are made from it.
#pragma once

#include <string>
#include <vector>

#include "cli/options/option_set.hpp"
#include "cli/verbs/verbs.hpp"

namespace foreshard::cli {

struct DescribedVerb {
  std::string name;
  std::string summary;
  std::vector<std::string> examples;  ///< without "foreshard "
  std::vector<OptionFacts> options;   ///< positionals among them, in the order of adding
};

/// Every verb of verbs(), in its order.
[[nodiscard]] std::vector<DescribedVerb> described_verbs();

/// What the shell can complete an option's value with, beside its words.
enum class Completes : std::uint8_t { nothing, files, folders };
[[nodiscard]] Completes completes(const OptionFacts& option);

/// `words` with a blank between them.
[[nodiscard]] std::string joined(const std::vector<std::string>& words);

}  // namespace foreshard::cli
