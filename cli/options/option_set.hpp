// The options of one verb: each is bound to a variable, parsed, and described for help, completion and man pages.
//
// Wraps CLI11, which only option_set.cpp includes: its header costs more compile time than any verb. What it accepts
// and says is CLI11's. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace foreshard::cli {

class OptionSet;

/// Whether "-" stands for standard output where a file is written.
enum class StandardOutput : std::uint8_t { no, as_well };

/// One option that was added: what else is said of it. Valid as long as its OptionSet.
class Option {
 public:
  Option& required();
  /// What help shows for the value: "FILE", "N|all". Completion takes file names for FILE, RUN, SNAPSHOT and the like.
  Option& type_name(const std::string& name);
  /// Only these words are accepted.
  Option& one_of(std::initializer_list<const char*> words);
  /// Words that completion offers; others are accepted too.
  Option& suggest(std::span<const std::string_view> words);
  Option& suggest(std::vector<std::string> words);
  Option& range(unsigned least, unsigned most);
  Option& range(int least, int most);
  Option& range(double least, double most);
  Option& positive();
  /// Names a file or folder that is written: check_outputs() looks at it.
  Option& writes(StandardOutput standard_output = StandardOutput::no);
  /// Refused together with `other`.
  Option& excludes(const Option& other);
  /// The heading under which help lists it.
  Option& group(const std::string& heading);

 private:
  friend class OptionSet;
  Option(OptionSet& set, CLI::Option& option) : set_(&set), option_(&option) {}

  OptionSet* set_;
  CLI::Option* option_;
};

/// How often an option counts and what it takes.
enum class Values : std::uint8_t {
  once,           ///< one value; given again is refused
  all,            ///< one value each time
  all_or_nothing  ///< as `all`; the option alone gives none
};

/// What is known of an option after it was added.
struct OptionFacts {
  std::vector<std::string> names;  ///< "-o", "--output"; of a positional its name, "run"
  std::vector<std::string> off;    ///< "--no-record": names that set a flag to false
  std::string type_name;           ///< empty for a flag
  std::string help;
  std::string group;
  std::vector<std::string> words;  ///< values that are known beforehand
  bool no_others = false;          ///< no value but `words` is accepted
  bool positional = false;
  bool required = false;
  bool repeatable = false;
  bool flag = false;  ///< takes no value
};

/// Whether a value that help calls so is a file or folder: "FILE", "RUN|SNAPSHOT".
[[nodiscard]] bool names_file(std::string_view type_name);

class OptionSet {
 public:
  /// `description` heads the help text; `program` stands in its usage line.
  OptionSet(const std::string& description, const std::string& program);
  OptionSet(const OptionSet&) = delete;
  OptionSet& operator=(const OptionSet&) = delete;
  ~OptionSet();

  // Binds `value`, which must outlive parse(). `names`: "-o,--output", or "run" for a positional; of a flag also
  // "--record,!--no-record".
  Option add_option(const std::string& names, std::string& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<std::string>& value, const std::string& help);
  Option add_option(const std::string& names, std::vector<std::string>& value, const std::string& help);
  Option add_option(const std::string& names, std::uint32_t& value, const std::string& help);
  Option add_option(const std::string& names, std::int32_t& value, const std::string& help);
  Option add_option(const std::string& names, std::size_t& value, const std::string& help);
  Option add_option(const std::string& names, double& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<std::uint16_t>& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<std::uint32_t>& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<double>& value, const std::string& help);
  Option add_flag(const std::string& names, bool& value, const std::string& help);
  /// `take` hears true or false, once.
  Option add_flag(const std::string& names, std::function<void(bool)> take, const std::string& help);
  /// `take` hears the texts as typed, once.
  Option add_texts(const std::string& names, std::function<void(const std::vector<std::string>&)> take,
                   const std::string& help, Values values);
  /// `take` reads the text; its Error is the parse's.
  Option add_text(const std::string& names, std::function<Result<void>(const std::string&)> take,
                  const std::string& help);

  /// Reads a verb's arguments in the order typed. False where --help was among them. Errors: usage, also of an option
  /// of one value that is given twice, and of a flag that is given on and off: none is the last.
  [[nodiscard]] Result<bool> parse(const std::vector<std::string>& arguments);
  /// After parse(): refuses (usage) an output with an empty name, one that any other option or input names as well
  /// (also as a file of a model's folder), two that are one file, whatever else may be written over, "-" where the
  /// option does not write to standard output, and --force where nothing is written.
  [[nodiscard]] Result<void> check_outputs() const;
  [[nodiscard]] std::string help() const;
  /// In the order of adding, --help first.
  [[nodiscard]] std::vector<OptionFacts> options() const;

 private:
  friend class Option;
  struct Parts;
  template <class Value>
  Option bind(const std::string& names, Value& value, const std::string& help);

  std::unique_ptr<Parts> parts_;
};

/// -q and --unverified, which every verb has.
void add_common_options(OptionSet& options, Console& console);

/// Adds an option whose text `parse` reads; its Error becomes the parse's, with what and hint.
template <class Value>
Option add_parsed(OptionSet& options, const std::string& names, std::optional<Value>& value,
                  Result<Value> (*parse)(std::string_view), const std::string& help) {
  return options.add_text(
      names,
      [&value, parse](const std::string& text) -> Result<void> {
        const Result<Value> parsed = parse(text);
        FORESHARD_TRY(parsed);
        value = *parsed;
        return {};
      },
      help);
}

}  // namespace foreshard::cli
