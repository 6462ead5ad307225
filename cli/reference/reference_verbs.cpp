#include "cli/reference/reference_verbs.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>

#include "cli/options/options.hpp"
#include "core/base/suggest.hpp"

namespace foreshard::cli {
namespace {

constexpr std::array kShells{"bash", "zsh", "fish"};

Action add_completion(OptionSet& set) {
  auto shell = std::make_shared<std::string>();
  set.add_option("shell", *shell, "the shell that the script is for")
      .required()
      .one_of({kShells[0], kShells[1], kShells[2]})
      .type_name("bash|zsh|fish");
  return [shell](Console& console) -> Result<int> {
    const std::vector<DescribedVerb> verbs = described_verbs();
    if (*shell == "bash") console.out << bash_completion(verbs);
    if (*shell == "zsh") console.out << zsh_completion(verbs);
    if (*shell == "fish") console.out << fish_completion(verbs);
    return kDone;
  };
}

struct ManOptions {
  std::string verb;
  std::string directory;
};

Result<int> write_pages(const std::vector<DescribedVerb>& verbs, const std::string& directory) {
  constexpr bool kOver = true;
  FORESHARD_TRY(write_text(directory + "/foreshard.1", man_overview(verbs), kOver));
  for (const DescribedVerb& verb : verbs)
    FORESHARD_TRY(write_text(fmt::format("{}/foreshard-{}.1", directory, verb.name), man_page(verb), kOver));
  return kDone;
}

Result<int> man(const ManOptions& options, Console& console) {
  const std::vector<DescribedVerb> verbs = described_verbs();
  if (!options.directory.empty()) return write_pages(verbs, options.directory);
  if (options.verb.empty()) {
    console.out << man_overview(verbs);
    return kDone;
  }
  std::vector<std::string_view> names;
  for (const DescribedVerb& verb : verbs) {
    if (verb.name == options.verb) {
      console.out << man_page(verb);
      return kDone;
    }
    names.push_back(verb.name);
  }
  return fail(ErrorKind::usage, fmt::format("unknown verb '{}'", options.verb), {}, suggestion(options.verb, names));
}

Action add_man(OptionSet& set) {
  auto options = std::make_shared<ManOptions>();
  set.add_option("verb", options->verb, "whose page; default: foreshard's own").type_name("VERB");
  set.add_option("--directory", options->directory, "write every page into this folder, which is there")
      .type_name("DIR");
  return [options](Console& console) { return man(*options, console); };
}

constexpr std::array kVerbs{
    Verb{"completion",
         "Prints a shell's completion script: verbs, options, their words and file names",
         {"completion bash > ~/.local/share/bash-completion/completions/foreshard", "completion fish | source"},
         add_completion},
    Verb{"man",
         "Prints a manual page in troff",
         {"man plan | man -l -", "man --directory ~/.local/share/man/man1"},
         add_man},
};

}  // namespace

std::span<const Verb> reference_verbs() {
  return kVerbs;
}

}  // namespace foreshard::cli
