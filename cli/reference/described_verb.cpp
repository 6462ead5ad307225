#include "cli/reference/described_verb.hpp"

#include <iostream>

namespace foreshard::cli {

std::vector<DescribedVerb> described_verbs() {
  std::vector<DescribedVerb> all;
  for (const Verb& verb : verbs()) {
    Console nowhere{std::cout, std::cerr};  // nothing is written: options are bound to it
    OptionSet set("", "foreshard");
    add_common_options(set, nowhere);
    const Action action = verb.add(set);  // owns what the options are bound to
    DescribedVerb described{std::string(verb.name), std::string(verb.summary), {}, set.options()};
    std::erase_if(described.options, [](const OptionFacts& option) { return option.group.empty(); });  // as in help
    for (const std::string_view example : verb.examples()) described.examples.emplace_back(example);
    all.push_back(std::move(described));
  }
  return all;
}

Completes completes(const OptionFacts& option) {
  const auto has = [&](std::string_view word) { return option.type_name.find(word) != std::string::npos; };
  if (has("DIR") || has("FOLDER")) return Completes::folders;
  const bool files = has("FILE") || has("RUN") || has("SNAPSHOT") || has("SOURCE") || option.type_name == "A" ||
                     option.type_name == "B";
  return files ? Completes::files : Completes::nothing;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

}  // namespace foreshard::cli
