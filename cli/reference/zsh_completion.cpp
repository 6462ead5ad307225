#include <fmt/format.h>

#include "cli/reference/reference_verbs.hpp"
#include "core/base/shell_word.hpp"

namespace foreshard::cli {
namespace {

/// Text inside a specification of _arguments: brackets and colons have a meaning there.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// ":SIZE:(a b)" or ":FILE:_files"; empty for a flag.
std::string value_of(const OptionFacts& option) {
  if (option.type_name.empty()) return {};
  const Completes kind = completes(option);
  const std::string_view files = kind == Completes::files ? "_files" : kind == Completes::folders ? "_files -/" : "";
  std::string action(files);
  if (!option.words.empty()) {
    const std::string words = joined(option.words);
    // The blank keeps _arguments from putting its own options before those of _alternative, which refuses them.
    action = files.empty() ? fmt::format("({})", words)
                           : fmt::format(" _alternative \"words\\:word\\:({})\" \"files\\:file\\:{}\"", words, files);
  }
  return fmt::format(":{}:{}", escaped(option.type_name), action);
}

void add_zsh_option(std::string& out, const OptionFacts& option) {
  const std::string value = value_of(option);
  if (option.positional) {
    out += fmt::format(" \\\n        {}", shell_quoted((option.repeatable ? "*" : "") + value));
    return;
  }
  for (const std::string& name : option.names)
    out += fmt::format(" \\\n        {}", shell_quoted(fmt::format("{}{}[{}]{}", option.repeatable ? "*" : "", name,
                                                                   escaped(option.help), value)));
  for (const std::string& name : option.off)
    out += fmt::format(" \\\n        {}", shell_quoted(fmt::format("{}[not\\: {}]", name, escaped(option.help))));
}

}  // namespace

std::string zsh_completion(const std::vector<DescribedVerb>& verbs) {
  std::string out =
      "#compdef foreshard\n# zsh completion of foreshard; made by `foreshard completion zsh`.\n_foreshard() {\n"
      "  local -a verbs\n  verbs=(\n";
  for (const DescribedVerb& verb : verbs)
    out += fmt::format("    {}\n", shell_quoted(verb.name + ":" + escaped(verb.summary)));
  out +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe verb verbs\n    [[ $PREFIX == -* ]] && compadd -- --help "
      "--version\n    return\n  fi\n"
      "  local verb=$words[2]\n  shift words\n  ((CURRENT--))\n  case $verb in\n";
  for (const DescribedVerb& verb : verbs) {
    out += fmt::format("    {})\n      _arguments", verb.name);
    for (const OptionFacts& option : verb.options) add_zsh_option(out, option);
    out += "\n      ;;\n";
  }
  return out + "  esac\n}\n_foreshard \"$@\"\n";
}

}  // namespace foreshard::cli
