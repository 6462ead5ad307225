#include "cli/front_door.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/options/option_set.hpp"
#include "cli/reference/reference_verbs.hpp"
#include "cli/reference/version_report.hpp"
#include "cli/terminal/output.hpp"
#include "cli/terminal/printable.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/suggest.hpp"
#include "viz/serve/questioner.hpp"

namespace foreshard::cli {
namespace {

int refuse(Console& console, const Error& error) {
  console.error(Error{error.kind, in_line(error.what), in_line(error.where), in_line(error.hint)}.text());
  return static_cast<int>(error.kind);
}

Error usage(std::string what, std::string hint) {
  return {ErrorKind::usage, std::move(what), {}, std::move(hint)};
}

bool is_option(const std::string& argument) {
  if (argument.size() < 2 || argument[0] != '-') return false;
  const bool number = argument[1] == '.' || (argument[1] >= '0' && argument[1] <= '9');
  return !number;
}

/// "--name=" and nothing behind it: CLI11 would take the next argument for its value.
Result<void> check_value(const OptionSet& options, const std::string& argument, const std::string& name) {
  if (argument.size() != name.size() + 1) return {};
  for (const OptionFacts& option : options.options())
    if (!option.flag && std::find(option.names.begin(), option.names.end(), name) != option.names.end())
      return tl::unexpected(usage(fmt::format("'{}' has no value", argument), fmt::format("give {}=VALUE", name)));
  return {};
}

/// The names of a verb's options, "--json" and "-o", for suggestions.
std::vector<std::string> option_names(const OptionSet& options) {
  std::vector<std::string> names;
  for (const OptionFacts& option : options.options()) {
    if (option.positional) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
    names.insert(names.end(), option.off.begin(), option.off.end());
  }
  return names;
}

/// "it is an option of plan and sweep"; empty: of no verb.
std::string whose(const std::string& name) {
  std::vector<std::string_view> of;
  for (const Verb& verb : verbs()) {
    OptionSet options({}, {});
    const Action unused = verb.add(options);
    const std::vector<std::string> names = option_names(options);
    if (std::find(names.begin(), names.end(), name) != names.end()) of.push_back(verb.name);
  }
  if (of.empty()) return {};
  std::string text = "it is an option of ";
  for (std::size_t i = 0; i < of.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 < of.size() ? ", " : " and ", of[i]);
  return text;
}

/// CLI11 would take the word behind an unknown option for an input, so options are looked at first.
Result<void> check_options(const OptionSet& options, const std::vector<std::string>& arguments) {
  const std::string& verb = arguments[0];
  const std::vector<std::string> names = option_names(options);
  const std::vector<std::string_view> known(names.begin(), names.end());
  for (std::size_t i = 1; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (!is_option(arguments[i])) continue;
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    FORESHARD_TRY(check_value(options, arguments[i], name));
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const bool short_with_value =
        name[1] != '-' && std::find(names.begin(), names.end(), name.substr(0, 2)) != names.end();
    if (short_with_value) continue;
    const std::string what = fmt::format("unknown option '{}' of {}", name, verb);
    if (const auto near = nearest(name, known); near)
      return tl::unexpected(usage(what, "did you mean '" + *near + "'?"));
    std::string others = whose(name);
    return tl::unexpected(usage(what, others.empty() ? "foreshard " + verb + " --help" : std::move(others)));
  }
  return {};
}

std::string overview() {
  std::string text =
      "examples:\n"
      "  foreshard plan llama-8b --gpus 8 --param-dtype bfloat16   a model, before a GPU is booked\n"
      "  foreshard import rec/ -o run.db                           your own training, recorded (docs/record.md)\n"
      "  foreshard sweep run.db                                    which settings are fastest, and fit\n"
      "  foreshard explain run.db                                  where the memory went, and who is late\n\n"
      "foreshard predicts what a PyTorch FSDP2 training step costs in time and in memory.\n\n"
      "usage: foreshard VERB [INPUT] [options]\n\n";
  for (const Verb& verb : verbs()) text += fmt::format("  {:<9} {}\n", verb.name, verb.summary);
  text += "\n  foreshard VERB --help for a verb's options; foreshard --version\n";
  return text;
}

std::string description(const Verb& verb) {
  std::string text = "examples:\n";
  for (const std::string_view example : verb.examples()) text += fmt::format("  foreshard {}\n", example);
  return text + fmt::format("\n{}.\n", verb.summary);
}

int run_verb(const Verb& verb, const std::vector<std::string>& arguments, Console& console) {
  OptionSet options(description(verb), "foreshard " + std::string(verb.name));
  add_common_options(options, console);
  const Action action = verb.add(options);
  if (const auto known = check_options(options, arguments); !known) return refuse(console, known.error());
  const Result<bool> parsed = options.parse({arguments.begin() + 1, arguments.end()});
  if (!parsed) {
    const std::string& hint = parsed.error().hint;
    return refuse(console,
                  usage(parsed.error().what, hint.empty() ? fmt::format("foreshard {} --help", verb.name) : hint));
  }
  if (!*parsed) {
    console.out << options.help();
    return kDone;
  }
  if (const auto outputs = options.check_outputs(); !outputs) return refuse(console, outputs.error());
  if (console.unverified)
    console.warn("stores are read as they are, changed or damaged (--unverified): no answer is sure");
  const Result<int> status = action(console);
  return status ? *status : refuse(console, status.error());
}

}  // namespace

int run(const std::vector<std::string>& arguments, Console& console) {
  if (arguments.empty()) {
    console.err << overview();
    return static_cast<int>(ErrorKind::usage);
  }
  const std::string& word = arguments[0];
  if (word == "--help" || word == "-h" || word == "help") {
    console.out << overview();
    return kDone;
  }
  if (word == "--version") {
    const bool json = arguments.size() > 1 && arguments[1] == "--json";
    if (json)
      print_json(console.out, version_json());
    else
      console.out << version_report();
    return kDone;
  }
  if (word == viz::kQuestionVerb) return viz::answer_question(std::span(arguments).subspan(1));  // of serve's
  std::vector<std::string_view> names;
  for (const Verb& verb : verbs()) {
    if (verb.name == word) return run_verb(verb, arguments, console);
    names.push_back(verb.name);
  }
  for (const Verb& verb : reference_verbs())
    if (verb.name == word) return run_verb(verb, arguments, console);
  return refuse(console, usage(fmt::format("unknown verb '{}'", word), suggestion(word, names)));
}

}  // namespace foreshard::cli
