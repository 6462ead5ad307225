#include "cli/options/option_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cli/options/options.hpp"
#include "core/base/suggest.hpp"
#include "traces/workload_source/workload_source.hpp"

namespace foreshard::cli {

struct OptionSet::Parts {
  Parts(const std::string& description, const std::string& program) : app(description, program) {}

  CLI::App app;
  struct Said {
    std::string type_name;
    std::vector<std::string> words;
    bool no_others = false;
    bool writes = false;
    bool to_standard_output = false;
    std::optional<double> least, most;  // of a number
    bool positive = false;
  };
  std::map<const CLI::Option*, Said> said;  // lookup only, never iterated
  std::string hint;                         // of the value that ended the parse
};

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::type_name(const std::string& name) {
  option_->type_name(name);
  set_->parts_->said[option_].type_name = name;
  return *this;
}

Option& Option::one_of(std::initializer_list<const char*> words) {
  OptionSet::Parts::Said& said = set_->parts_->said[option_];
  said.words.assign(words.begin(), words.end());
  said.no_others = true;
  const auto unknown = [parts = set_->parts_.get(), known = said.words](const std::string& word) -> std::string {
    if (std::find(known.begin(), known.end(), word) != known.end()) return {};
    parts->hint = suggestion(word, std::vector<std::string_view>(known.begin(), known.end()));
    return fmt::format("'{}' is none of {}", word, fmt::join(known, ", "));
  };
  option_->check(std::function<std::string(const std::string&)>(unknown));
  return *this;
}

Option& Option::suggest(std::span<const std::string_view> words) {
  set_->parts_->said[option_].words.assign(words.begin(), words.end());
  return *this;
}

Option& Option::suggest(std::vector<std::string> words) {
  set_->parts_->said[option_].words = std::move(words);
  return *this;
}

Option& Option::range(unsigned least, unsigned most) {
  return range(static_cast<double>(least), static_cast<double>(most));
}

Option& Option::range(int least, int most) {
  return range(static_cast<double>(least), static_cast<double>(most));
}

Option& Option::range(double least, double most) {
  OptionSet::Parts::Said& said = set_->parts_->said[option_];
  said.least = least;
  said.most = most;
  option_->type_name(fmt::format("{}:{} to {}", said.type_name.empty() ? "N" : said.type_name, least, most));
  return *this;
}

Option& Option::positive() {
  set_->parts_->said[option_].positive = true;
  return *this;
}

Option& Option::writes(StandardOutput standard_output) {
  OptionSet::Parts::Said& said = set_->parts_->said[option_];
  said.writes = true;
  said.to_standard_output = standard_output == StandardOutput::as_well;
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::group(const std::string& heading) {
  option_->group(heading);
  return *this;
}

OptionSet::OptionSet(const std::string& description, const std::string& program)
    : parts_(std::make_unique<Parts>(description, program)) {
  parts_->app.get_formatter()->column_width(34);
  parts_->app.set_help_flag("-h,--help", "this text");
}

OptionSet::~OptionSet() = default;

/// What is wrong with a number, in one sentence that says the option's range; empty where nothing is. CLI11 2.1 takes
/// -1 and what is too large for the largest of 64 bits, 010 for eight, and nothing for no value.
template <class Number, class Said>
static std::string wrong_number(const std::string& text, const Said& said) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  const auto value = static_cast<double>(number);
  const bool inside =
      value >= said.least.value_or(value) && value <= said.most.value_or(value) && (!said.positive || value > 0);
  if constexpr (std::is_floating_point_v<Number>) {
    if (whole && std::isfinite(number) && inside) return {};
    if (said.least && said.most) return fmt::format("'{}' is no number from {} to {}", text, *said.least, *said.most);
    return fmt::format("'{}' is no number{}", text, said.positive ? " above 0" : "");
  } else {
    using Limits = std::numeric_limits<Number>;
    const Number least = said.least ? static_cast<Number>(*said.least) : said.positive ? Number{1} : Limits::min();
    const Number most = said.most ? static_cast<Number>(*said.most) : Limits::max();
    return whole && inside ? std::string() : fmt::format("'{}' is no whole number from {} to {}", text, least, most);
  }
}

/// Of a text that is empty where its option was not given: an unset variable of a shell would pass for its default.
static std::string wrong_text(const std::string& text) {
  return text.empty() ? "has an empty value" : "";
}

template <class Value>
struct NumberIn {
  using Type = Value;
};
template <class Value>
struct NumberIn<std::optional<Value>> {
  using Type = Value;
};

template <class Value>
Option OptionSet::bind(const std::string& names, Value& value, const std::string& help) {
  CLI::Option* option = parts_->app.add_option(names, value, help);
  using Number = typename NumberIn<Value>::Type;
  if constexpr (std::is_arithmetic_v<Number>) {
    const auto wrong = [parts = parts_.get(), option](const std::string& text) {
      return wrong_number<Number>(text, parts->said[option]);
    };
    option->check(std::function<std::string(const std::string&)>(wrong));
  }
  if constexpr (std::is_same_v<Value, std::string>)
    option->check(std::function<std::string(const std::string&)>(wrong_text));
  return {*this, *option};
}

Option OptionSet::add_option(const std::string& names, std::string& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::optional<std::string>& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::vector<std::string>& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::uint32_t& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::int32_t& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::size_t& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, double& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::optional<std::uint16_t>& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::optional<std::uint32_t>& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help) {
  return bind(names, value, help);
}
Option OptionSet::add_option(const std::string& names, std::optional<double>& value, const std::string& help) {
  return bind(names, value, help);
}

Option OptionSet::add_flag(const std::string& names, bool& value, const std::string& help) {
  return {*this, *parts_->app.add_flag(names, value, help)};
}

Option OptionSet::add_flag(const std::string& names, std::function<void(bool)> take, const std::string& help) {
  const auto counted = [take = std::move(take)](std::int64_t count) { take(count > 0); };
  return {*this, *parts_->app.add_flag_function(names, counted, help)};
}

Option OptionSet::add_texts(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                            const std::string& help, Values values) {
  CLI::Option* option = parts_->app.add_option_function<std::vector<std::string>>(names, take, help);
  option->type_size(1)->expected(values == Values::all_or_nothing ? 0 : 1, 1);
  option->multi_option_policy(values == Values::once ? CLI::MultiOptionPolicy::Throw : CLI::MultiOptionPolicy::TakeAll);
  option->allow_extra_args(false);
  return {*this, *option};
}

Option OptionSet::add_text(const std::string& names, std::function<Result<void>(const std::string&)> take,
                           const std::string& help) {
  const auto checked = [this, take = std::move(take), names](const std::string& text) {
    const Result<void> taken = take(text);
    if (taken) return;
    Error error = taken.error();
    parts_->hint = std::move(error.hint);
    error.hint.clear();
    throw CLI::ValidationError(names, error.text());
  };
  return {*this, *parts_->app.add_option_function<std::string>(names, checked, help)};
}

/// An option of one value that has several, and nothing says which counts; null: none.
static const CLI::Option* given_twice(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw && option->get_items_expected_max() == 1 &&
        option->count() > 1)
      return option;
  return nullptr;
}

/// A flag that is given on and off; null: none.
static const CLI::Option* on_and_off(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0 || option->get_fnames().empty() || option->count() < 2) continue;
    const std::vector<std::string>& said = option->results();
    if (std::any_of(said.begin(), said.end(), [&](const std::string& one) { return one != said.front(); }))
      return option;
  }
  return nullptr;
}

/// Of "--set-to-none false" how a flag's value is given; empty: no flag is followed by a truth value.
static std::string flag_hint(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] != "true" && arguments[i] != "false") continue;
    const CLI::Option* option = app.get_option_no_throw(arguments[i - 1]);
    if (option == nullptr || option->get_items_expected_max() > 0 || !arguments[i - 1].starts_with("--")) continue;
    const bool turned_off = !option->get_fnames().empty();
    return fmt::format("{} is a flag: give it alone{}", arguments[i - 1],
                       turned_off ? fmt::format(", or --{}", option->get_fnames().front()) : ", or leave it out");
  }
  return {};
}

Result<bool> OptionSet::parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes the last first
  try {
    parts_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ArgumentMismatch& error) {
    const CLI::Option* twice = given_twice(parts_->app);
    if (twice == nullptr) return fail(ErrorKind::usage, error.what());
    return fail(ErrorKind::usage,
                fmt::format("{} is given as {}", twice->get_name(), fmt::join(twice->results(), " and as ")), {},
                "it takes one value: leave the others out");
  } catch (const CLI::ParseError& error) {  // CLI11's own words without its class names
    const std::string of_flag = flag_hint(parts_->app, arguments);
    return fail(ErrorKind::usage, error.what(), {}, of_flag.empty() ? parts_->hint : of_flag);
  } catch (const std::logic_error&) {  // CLI11 2.1 converts a flag's value with std::stoll
    return fail(ErrorKind::usage, "a flag's value is neither true nor false");
  }
  if (const CLI::Option* both = on_and_off(parts_->app); both != nullptr)
    return fail(ErrorKind::usage, fmt::format("{} and --{} are both given", both->get_name(), both->get_fnames()[0]),
                {}, "leave one of the two out");
  return true;
}

bool names_file(std::string_view type_name) {
  for (const std::string_view word : {"FILE", "RUN", "SNAPSHOT", "SOURCE", "DIR", "FOLDER"})
    if (type_name.find(word) != std::string_view::npos) return true;
  return type_name == "A" || type_name == "B";
}

/// Whether two files, which need not be there, are one: by whatever way their folder is named.
static bool same_place(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  // Of a relative path whose first name is not there weakly_canonical() leaves a relative one.
  const auto place = [&](const fs::path& path) { return fs::weakly_canonical(fs::absolute(path, error), error); };
  return place(a) == place(b);
}

/// The files that a value names: as it is, by the commas of a list, behind RANK= and the like, and those of a SOURCE
/// that is a folder.
static void add_inputs(const std::string& value, std::vector<std::string>& inputs) {
  const auto add = [&](const std::string& path) {
    for (std::string& file : traces::source_files(path)) inputs.push_back(std::move(file));
  };
  const auto add_named = [&](const std::string& text) {
    add(text);
    if (const std::size_t equals = text.find('='); equals != std::string::npos) add(text.substr(equals + 1));
  };
  add_named(value);
  for (std::size_t from = 0; value.find(',') != std::string::npos && from <= value.size();) {
    const std::size_t comma = std::min(value.find(',', from), value.size());
    add_named(value.substr(from, comma - from));
    from = comma + 1;
  }
}

Result<void> OptionSet::check_outputs() const {
  std::vector<std::string> inputs;
  bool to_standard_output = false;
  std::vector<std::pair<std::string, std::string>> outputs;  // the option's name, the file's
  for (const CLI::Option* option : parts_->app.get_options()) {
    const auto said = parts_->said.find(option);
    const bool writes = said != parts_->said.end() && said->second.writes;
    const bool names =
        said == parts_->said.end() || said->second.type_name.empty() || names_file(said->second.type_name);
    for (const std::string& value : option->count() > 0 ? option->results() : std::vector<std::string>()) {
      if (writes) {
        if (value.empty())
          return fail(ErrorKind::usage, "the output has an empty name", option->get_name(), "name a file");
        if (value == "-" && !said->second.to_standard_output)
          return fail(ErrorKind::usage, "standard output has the answer: this one is written to a file",
                      option->get_name(), "name a file, or ./- for one of that name");
        to_standard_output |= value == "-";
        if (value != "-") outputs.emplace_back(option->get_name(), value);
      } else if (names) {
        add_inputs(value, inputs);
      }
    }
  }
  if (outputs.empty() && !to_standard_output)
    for (const CLI::Option* option : parts_->app.get_options())
      if (option->get_name() == "--force" && option->count() > 0)
        return fail(ErrorKind::usage, "nothing is written that could take the place of another file", "--force",
                    "leave it out, or name an output");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, path] = outputs[i];
    FORESHARD_TRY(is_no_input(path, inputs));
    for (std::size_t j = 0; j < i; ++j)
      if (same_place(path, outputs[j].second))
        return fail(ErrorKind::usage, fmt::format("{} and {} name the same file", outputs[j].first, option), path,
                    "give each a name of its own");
  }
  return {};
}

std::string OptionSet::help() const {
  return parts_->app.help();
}

std::vector<OptionFacts> OptionSet::options() const {
  std::vector<OptionFacts> all;
  for (const CLI::Option* option : parts_->app.get_options()) {
    OptionFacts facts;
    facts.positional = option->get_positional();
    facts.required = option->get_required();
    facts.help = option->get_description();
    facts.group = option->get_group();
    const std::vector<std::string>& off = option->get_fnames();
    const auto name = [&](const std::string& dashes, const std::string& word) {
      const bool sets_false = std::find(off.begin(), off.end(), word) != off.end();
      (sets_false ? facts.off : facts.names).push_back(dashes + word);
    };
    for (const std::string& word : option->get_snames()) name("-", word);
    for (const std::string& word : option->get_lnames()) name("--", word);
    if (facts.positional) facts.names.push_back(option->get_name(true));
    const bool flag = option->get_items_expected_max() == 0;
    facts.flag = flag;
    if (!flag) facts.type_name = option->get_type_name().substr(0, option->get_type_name().find(':'));
    facts.repeatable = !flag && (option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
                                 option->get_items_expected_max() > 1);
    if (const auto said = parts_->said.find(option); said != parts_->said.end()) {
      if (!said->second.type_name.empty()) facts.type_name = said->second.type_name;
      facts.words = said->second.words;
      facts.no_others = said->second.no_others;
    }
    all.push_back(std::move(facts));
  }
  return all;
}

void add_common_options(OptionSet& options, Console& console) {
  options.add_flag("-q,--quiet", console.quiet, "no notes and no progress on stderr");
  options.add_flag("--unverified", console.unverified,
                   "read stores as they are, also where they were changed or damaged");
}

}  // namespace foreshard::cli
