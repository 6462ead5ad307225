#include <algorithm>
#include <array>
#include <cctype>

#include "traces/folder/recording_folder.hpp"

namespace foreshard::traces {
namespace {

constexpr std::size_t kMaxDigits = 12;  // torchtitan pads steps to twelve

bool digit(char c) {
  return c >= '0' && c <= '9';
}

/// The digits from `at` on as a number; none where there are none, or too many.
std::optional<std::uint64_t> number_at(std::string_view text, std::size_t at) {
  std::uint64_t value = 0;
  std::size_t length = 0;
  for (; at + length < text.size() && digit(text[at + length]); ++length) {
    if (length == kMaxDigits) return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(text[at + length] - '0');
  }
  if (length == 0) return std::nullopt;
  return value;
}

/// The number behind the last `word` that has one, one of "_-" between them or none.
std::optional<std::uint64_t> number_behind(std::string_view text, std::string_view word) {
  for (std::size_t at = text.rfind(word); at != std::string_view::npos; at = at == 0 ? at : text.rfind(word, at - 1)) {
    std::size_t digits = at + word.size();
    if (digits < text.size() && (text[digits] == '_' || text[digits] == '-')) ++digits;
    if (const auto number = number_at(text, digits)) return number;
    if (at == 0) break;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> rank_of(std::string_view path, std::string_view name) {
  auto rank = number_behind(path, "rank");
  if (!rank && name.starts_with("profile_")) rank = number_behind(name, "profile");  // accelerate
  if (!rank && name.find("_step_") == std::min(name.find_first_not_of("0123456789"), name.size()))
    rank = number_at(name, 0);  // torchtitan's snapshots
  if (!rank || *rank > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*rank);
}

std::optional<RecordingFileKind> kind_of(std::string_view path, std::string_view name) {
  for (const std::string_view packed : {".gz", ".xz"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  if (name.ends_with(".pickle")) return RecordingFileKind::snapshot;
  if (name.ends_with(".log")) return RecordingFileKind::log;
  if (!name.ends_with(".json")) return std::nullopt;
  if (name == "about.json" || name.ends_with(".about.json")) return RecordingFileKind::about;
  if (name == "config.json") return RecordingFileKind::config;
  if (path.find("comm_traces/") != std::string_view::npos) return std::nullopt;  // c10d's flight recorder
  constexpr std::array<std::string_view, 3> kTraces{"trace", "profile", "-of-"};
  const bool is_trace = std::any_of(kTraces.begin(), kTraces.end(),
                                    [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
  return is_trace ? std::optional(RecordingFileKind::trace) : std::nullopt;
}

}  // namespace

std::optional<RecordingFile> recording_file(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const auto kind = kind_of(path, name);
  if (!kind) return std::nullopt;
  RecordingFile file{*kind, std::string(path), {}, {}};
  if (*kind != RecordingFileKind::snapshot && *kind != RecordingFileKind::trace) return file;
  file.rank = rank_of(path, name);
  file.step = number_behind(path, "iteration");
  if (!file.step) file.step = number_behind(path, "step");
  return file;
}

}  // namespace foreshard::traces
