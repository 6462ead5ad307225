#include "core/run/job_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/json_io.hpp"
#include "core/base/shell_word.hpp"

namespace foreshard {
namespace {

constexpr const char* kKey = "job_options";
constexpr const char* kLengths = "--lengths";
constexpr const char* kJitter = "--jitter";
constexpr const char* kBeside = "--beside";
constexpr std::array kFlapping{"--flapping-adapter", "--flapping-uplinks"};

nlohmann::ordered_json answer(const std::map<std::string, std::string>& results, const char* key) {
  const auto kept = results.find(key);
  return kept == results.end() ? nlohmann::ordered_json() : parse_ordered_json_text(kept->second);
}

std::string member_text(const nlohmann::ordered_json& of, const char* member) {
  if (!of.is_object() || !of.contains(member) || !of[member].is_string()) return {};
  return of[member].get<std::string>();
}

/// Of a plan's `trials`: jitter and seed as they were given, lengths where they are neither a file's nor rounded up.
void add_trials(const nlohmann::ordered_json& trials, JobOptions& out) {
  if (!trials.is_object()) return;
  if (const std::string jitter = member_text(trials, "jitter"); !jitter.empty()) add_option(out, kJitter, {jitter});
  const std::string lengths = member_text(trials.value("lengths", nlohmann::ordered_json()), "lengths");
  if (lengths.find(' ') != std::string::npos)
    out.push_back({kLengths, {}, {}, fmt::format("drawn lengths ({})", lengths)});
  else if (!lengths.empty())
    add_option(out, kLengths, {lengths});
  for (const char* key : {"trials", "seed"})
    if (const auto found = trials.find(key); found != trials.end() && found->is_number_unsigned())
      add_option(out, fmt::format("--{}", key), {std::to_string(found->get<std::uint64_t>())});
}

/// What plans said before they kept their options.
JobOptions in_words(const std::map<std::string, std::string>& results) {
  JobOptions out;
  const auto add = [&out](const char* name, std::string words) { out.push_back({name, {}, {}, std::move(words)}); };
  if (const std::string differ = member_text(answer(results, "ranks"), "differ"); !differ.empty())
    add("", fmt::format("ranks that differ ({})", differ));
  if (const auto hang = answer(results, "hang"); hang.is_object())
    for (const auto& [member, name, words] :
         {std::tuple{"dead", "--dead-rank", "a rank that dies"}, {"skips", "--skip-unit", "a rank that skips a unit"}})
      if (hang.contains(member) && !hang[member].empty()) add(name, words);
  add_trials(answer(results, "trials"), out);
  if (const std::string load = member_text(answer(results, "background_load"), "words"); !load.empty())
    add("--background-load", fmt::format("other traffic ({})", load));
  if (answer(results, "flapping").is_object()) add(kFlapping[0], "a link that flaps");
  if (answer(results, "beside").is_object()) add(kBeside, "another job beside it");
  return out;
}

}  // namespace

void add_option(JobOptions& options, std::string_view name, const std::vector<std::string>& values) {
  if (!values.empty()) options.push_back({std::string(name), values});
}

const JobOption* find_option(const JobOptions& options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const JobOption& of) { return of.name == name; });
  return found == options.end() ? nullptr : &*found;
}

std::string text_of(const JobOptions& options) {
  std::string out, words;
  for (const JobOption& option : options) {
    for (const std::string& value : option.values)
      out += fmt::format("{}{} {}", out.empty() ? "" : " ", option.name, shell_word(value));
    if (!option.words.empty()) words += (words.empty() ? "" : ", ") + option.words;
  }
  if (out.empty()) return words;
  return words.empty() ? out : words + ", " + out;
}

std::string key_of(const JobOption& option) {
  std::string key = option.name.substr(std::min(option.name.find_first_not_of('-'), option.name.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  return key.empty() ? "job" : key;
}

std::string json_of(const JobOption& option) {
  nlohmann::ordered_json json = option.values;
  if (!option.words.empty()) json = option.words;
  if (option.values.size() == 1) json = option.values.front();
  if (!option.digest.empty()) json = {{"file", option.values.front()}, {"digest", option.digest}};
  return json_text(json);
}

JobOptions job_options(const std::map<std::string, std::string>& results) {
  if (!results.contains(kKey)) return in_words(results);
  JobOptions out;
  const nlohmann::ordered_json kept = answer(results, kKey);
  if (!kept.is_object()) return out;
  for (const auto& [key, value] : kept.items()) {
    JobOption option{"--" + key, {}};
    std::replace(option.name.begin(), option.name.end(), '_', '-');
    option.digest = member_text(value, "digest");
    const nlohmann::ordered_json given = value.is_object() ? value.value("file", nlohmann::ordered_json()) : value;
    for (const auto& text : given.is_array() ? given : nlohmann::ordered_json::array({given}))
      if (text.is_string()) option.values.push_back(text.get<std::string>());
    if (!option.values.empty()) out.push_back(std::move(option));
  }
  return out;
}

JobOptions not_given(const JobOptions& stored, const JobOptions& given) {
  JobOptions out;
  for (const JobOption& option : stored)
    if (option.name.empty() || find_option(given, option.name) == nullptr) out.push_back(option);
  const bool drawn = find_option(out, kLengths) != nullptr;
  const bool chance = drawn || find_option(out, kJitter) != nullptr || find_option(out, kFlapping[0]) != nullptr ||
                      find_option(out, kFlapping[1]) != nullptr;
  std::erase_if(out, [&](const JobOption& option) {
    return (!drawn && option.name == "--pad") || (!chance && (option.name == "--trials" || option.name == "--seed"));
  });
  return out;
}

std::vector<NotInRun> not_in_run(const Run& run) {
  std::vector<NotInRun> out;
  if (run.info.kind != RunKind::planned) return out;
  const JobOptions options = job_options(run.results);
  const auto add = [&](std::initializer_list<std::string_view> names, const char* what, std::string here) {
    JobOptions of;
    for (const std::string_view name : names)
      if (const JobOption* option = find_option(options, name)) of.push_back(*option);
    const bool told = std::any_of(of.begin(), of.end(), [](const JobOption& option) { return option.words.empty(); });
    if (!of.empty())
      out.push_back({told ? fmt::format("{} ({})", what, text_of(of)) : std::string(what), std::move(here)});
  };
  add({kLengths, "--pad"}, "has each rank draw lengths",
      fmt::format("of samples of {} tokens alone", run.settings.seq.value_or(0)));
  add({kJitter}, "has jitter", "without jitter");
  add({kFlapping[0], kFlapping[1]}, "has links that flap", "of steps in which no link is down");
  add({kBeside}, "has another job beside it", "of the job alone");
  return out;
}

}  // namespace foreshard
