#include <fmt/format.h>

#include "cli/reference/reference_verbs.hpp"
#include "core/base/shell_word.hpp"

namespace foreshard::cli {
namespace {

/// One line: "-s o -l output -r -F -d 'help'".
void add_fish_option(std::string& out, const std::string& verb, const OptionFacts& option) {
  std::string line = fmt::format("complete -c foreshard -n '__fish_seen_subcommand_from {}'", verb);
  if (!option.positional)
    for (const std::string& name : option.names)
      line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  const bool files = completes(option) != Completes::nothing;
  if (!option.type_name.empty() && !option.positional) line += files ? " -r -F" : " -x";
  if (option.positional && files) line += " -F";
  if (!option.words.empty()) line += " -a " + shell_quoted(joined(option.words));
  out += line + " -d " + shell_quoted(option.help) + "\n";
  for (const std::string& name : option.off)
    out += fmt::format("complete -c foreshard -n '__fish_seen_subcommand_from {}' -l {} -d {}\n", verb, name.substr(2),
                       shell_quoted("not: " + option.help));
}

}  // namespace

std::string fish_completion(const std::vector<DescribedVerb>& verbs) {
  std::string out = "# fish completion of foreshard; made by `foreshard completion fish`.\ncomplete -c foreshard -f\n";
  out +=
      "complete -c foreshard -n __fish_use_subcommand -l help -d 'the verbs'\n"
      "complete -c foreshard -n __fish_use_subcommand -l version -d 'which foreshard this is'\n";
  for (const DescribedVerb& verb : verbs)
    out += fmt::format("complete -c foreshard -n __fish_use_subcommand -a {} -d {}\n", verb.name,
                       shell_quoted(verb.summary));
  for (const DescribedVerb& verb : verbs)
    for (const OptionFacts& option : verb.options) add_fish_option(out, verb.name, option);
  return out;
}

}  // namespace foreshard::cli
