// `foreshard completion` and `foreshard man`: what packages install, made from the tables of verbs and options. They
// are not in the overview, whose readers plan a run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/reference/described_verb.hpp"

namespace foreshard::cli {

[[nodiscard]] std::span<const Verb> reference_verbs();

/// Scripts for the shell's start-up files, or for its folder of completions.
[[nodiscard]] std::string bash_completion(const std::vector<DescribedVerb>& verbs);
[[nodiscard]] std::string zsh_completion(const std::vector<DescribedVerb>& verbs);
[[nodiscard]] std::string fish_completion(const std::vector<DescribedVerb>& verbs);

/// foreshard(1), in the man macros of troff.
[[nodiscard]] std::string man_overview(const std::vector<DescribedVerb>& verbs);
/// foreshard-VERB(1)
[[nodiscard]] std::string man_page(const DescribedVerb& verb);

}  // namespace foreshard::cli
