#include <fmt/format.h>

#include "cli/reference/reference_verbs.hpp"
#include "core/base/shell_word.hpp"

namespace foreshard::cli {
namespace {

constexpr std::string_view kBegin = R"(# bash completion of foreshard; made by `foreshard completion bash`.
_foreshard() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]:-}
  local words='' files='' options=''
  COMPREPLY=()
  # "--option=value" comes as three words.
  if [ "$current" = = ]; then
    current=''
  elif [ "$previous" = = ] && [ "$COMP_CWORD" -ge 3 ]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
)";

constexpr std::string_view kEnd = R"(  if [ "${current:0:1}" = - ]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ "$files" = f ]; then compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$current")); fi
  if [ "$files" = d ]; then compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "$current")); fi
}
complete -F _foreshard foreshard
)";

std::string_view letter(Completes kind) {
  return kind == Completes::files ? "f" : kind == Completes::folders ? "d" : "";
}

/// What follows an option with a value: that value, whose words replace those of the positionals.
void add_values(std::string& out, const DescribedVerb& verb) {
  for (const OptionFacts& option : verb.options) {
    if (option.positional || option.type_name.empty()) continue;
    std::string patterns;
    for (const std::string& name : option.names)
      patterns += fmt::format("{}'{} {}'", patterns.empty() ? "" : "|", verb.name, name);
    out += fmt::format("    {}) options='' words={} files={} ;;\n", patterns, shell_quoted(joined(option.words)),
                       letter(completes(option)));
  }
}

void add_verb(std::string& out, const DescribedVerb& verb) {
  std::vector<std::string> options, words;
  Completes files = Completes::nothing;
  for (const OptionFacts& option : verb.options) {
    if (option.positional) {
      words.insert(words.end(), option.words.begin(), option.words.end());
      if (completes(option) != Completes::nothing) files = completes(option);
      continue;
    }
    options.insert(options.end(), option.names.begin(), option.names.end());
    options.insert(options.end(), option.off.begin(), option.off.end());
  }
  out += fmt::format("    {}) options={} words={} files={} ;;\n", verb.name, shell_quoted(joined(options)),
                     shell_quoted(joined(words)), letter(files));
}

}  // namespace

std::string bash_completion(const std::vector<DescribedVerb>& verbs) {
  std::string out(kBegin);
  std::vector<std::string> names;
  for (const DescribedVerb& verb : verbs) names.push_back(verb.name);
  out += fmt::format(
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '{} --help --version' -- \"$current\"))\n"
      "    return\n  fi\n",
      joined(names));
  out += "  case $verb in\n";
  for (const DescribedVerb& verb : verbs) add_verb(out, verb);
  out += "  esac\n  case \"$verb $previous\" in\n";
  for (const DescribedVerb& verb : verbs) add_values(out, verb);
  out += "  esac\n";
  return out.append(kEnd);
}

}  // namespace foreshard::cli
