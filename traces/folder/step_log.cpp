#include "traces/folder/step_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace foreshard::traces {
namespace {

constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kMaxSteps = 1'000'000;

/// The line without colours: ESC [ … m.
std::string plain(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      const std::size_t end = line.find('m', i);
      if (end == std::string_view::npos) break;
      i = end;
    } else {
      out += line[i];
    }
  }
  return out;
}

/// The number behind `word` and blanks, colons, equals signs and quotes; commas in it separate thousands.
std::optional<double> number_after(std::string_view line, std::string_view word) {
  const std::size_t found = line.find(word);
  if (found == std::string_view::npos) return std::nullopt;
  const std::size_t at = line.find_first_not_of(" \t:='\"", found + word.size());
  if (at == std::string_view::npos) return std::nullopt;
  std::string digits;
  for (std::size_t i = at; i < line.size(); ++i) {
    const bool separates = line[i] == ',' && i + 3 < line.size() && line[i + 1] >= '0' && line[i + 1] <= '9' &&
                           line[i + 2] >= '0' && line[i + 2] <= '9' && line[i + 3] >= '0' && line[i + 3] <= '9';
    if (separates) continue;
    if ((line[i] < '0' || line[i] > '9') && line[i] != '.' && line[i] != 'e' && line[i] != '-') break;
    digits += line[i];
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // A day for a step, and tokens of a device that no GPU makes, are mistakes of units.
  constexpr double kLargest = 1e12;
  if (error != std::errc() || !(value > 0 && value < kLargest)) return std::nullopt;
  return value;
}

std::optional<LoggedStep> logged_step(std::string_view raw) {
  if (raw.size() > kLongestLine || raw.find("step") == std::string_view::npos) return std::nullopt;
  const std::string line = plain(raw);
  if (line.find("validate step") != std::string::npos) return std::nullopt;
  const auto step = number_after(line, "step:") ? number_after(line, "step:") : number_after(line, "\"step\"");
  if (!step || *step != static_cast<double>(static_cast<std::uint64_t>(*step))) return std::nullopt;
  LoggedStep out{static_cast<std::uint64_t>(*step), number_after(line, "tps:").value_or(0), 0};
  if (out.tokens_per_second == 0) out.tokens_per_second = number_after(line, "throughput(tps)").value_or(0);
  constexpr double kDay = 86'400;
  if (const auto seconds = number_after(line, "end_to_end(s)"); seconds && *seconds < kDay) out.seconds = *seconds;
  if (out.tokens_per_second == 0 && out.seconds == 0) return std::nullopt;
  return out;
}

/// Whether one of the steps (before, step] ran under the profiler, which covers the last of each `profile_freq`.
bool is_profiled(std::uint64_t before, std::uint64_t step, const LogUnits& units) {
  if (units.profile_freq == 0) return false;
  const std::uint64_t end = (step + units.profile_freq - 1) / units.profile_freq * units.profile_freq;
  const std::uint64_t begin = end - std::min<std::uint64_t>(end, units.profiled_steps);
  const std::uint64_t last = end - units.profile_freq;  // the profile before, where the line begins in it
  return step > begin || before < last;
}

}  // namespace

std::vector<LoggedStep> logged_steps(std::string_view text) {
  std::map<std::uint64_t, LoggedStep> by_step;
  while (!text.empty() && by_step.size() < kMaxSteps) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (const auto step = logged_step(line)) by_step.emplace(step->step, *step);
  }
  std::vector<LoggedStep> out;
  for (const auto& [unused, step] : by_step) out.push_back(step);
  return out;
}

std::optional<LoggedTimes> times_of(std::span<const LoggedStep> steps, const LogUnits& units) {
  LoggedTimes out;
  std::vector<double> profiled;
  bool by_tokens = false;
  std::vector<std::uint64_t> used;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const LoggedStep& s = steps[i];
    double ms = s.seconds * 1e3;
    if (ms == 0 && s.tokens_per_second > 0 && units.tokens > 0) {
      ms = units.tokens / s.tokens_per_second * 1e3;
      by_tokens = true;
    }
    if (!(ms > 0)) continue;
    if (is_profiled(steps[i - 1].step, s.step, units)) {
      profiled.push_back(ms);
      continue;
    }
    out.step_ms.push_back(ms);
    used.push_back(s.step);
  }
  const bool all_profiled = out.step_ms.empty();
  if (all_profiled) out.step_ms = std::move(profiled);
  if (out.step_ms.empty()) return std::nullopt;
  out.from = fmt::format(
      "{} lines{}, {}", out.step_ms.size(),
      all_profiled ? ", all over profiled steps" : fmt::format(" of steps {} to {}", used.front(), used.back()),
      by_tokens ? fmt::format("tokens a second at {} tokens a step and device", units.tokens)
                : std::string("end_to_end(s)"));
  return out;
}

}  // namespace foreshard::traces
