#include "core/allocator/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/suggest.hpp"

namespace foreshard {
namespace {

// Names of AllocatorConfig.cpp and CUDAAllocatorConfig.cpp (2.11).
constexpr std::array<std::string_view, 16> kKnownKeys{"backend",
                                                      "max_split_size_mb",
                                                      "max_non_split_rounding_mb",
                                                      "large_segment_size_mb",
                                                      "roundup_power2_divisions",
                                                      "garbage_collection_threshold",
                                                      "expandable_segments",
                                                      "per_process_memory_fraction",
                                                      "throw_on_cudamalloc_oom",
                                                      "release_lock_on_cudamalloc",
                                                      "graph_capture_record_stream_reuse",
                                                      "pinned_use_cuda_host_register",
                                                      "pinned_num_register_threads",
                                                      "pinned_use_background_threads",
                                                      "pinned_reserve_segment_size_mb",
                                                      "pinned_free_catch_all"};

/// Checked, and without effect on the device allocator's bytes.
constexpr std::array<std::string_view, 5> kIgnoredFlags{
    "release_lock_on_cudamalloc", "graph_capture_record_stream_reuse", "pinned_use_cuda_host_register",
    "pinned_use_background_threads", "pinned_free_catch_all"};
constexpr std::uint64_t kMaxPinnedThreads = 128;  // CUDAAllocatorConfig::pinned_max_register_threads

constexpr std::string_view kWhere = "PYTORCH_ALLOC_CONF";
constexpr Bytes kMaxMegabytes = std::numeric_limits<Bytes>::max() / kMiB;

/// One "key:value"; a list value is kept without its brackets.
struct Option {
  std::string key;
  std::string value;
  bool is_list = false;
};

tl::unexpected<Error> bad_value(const Option& option, std::string_view accepted) {
  return fail(ErrorKind::usage, fmt::format("option {} does not accept \"{}\"", option.key, option.value),
              std::string(kWhere), fmt::format("accepted: {}", accepted));
}

tl::unexpected<Error> unknown_key(std::string_view key) {
  return fail(ErrorKind::usage, fmt::format("unknown option \"{}\"", key), std::string(kWhere),
              suggestion(key, kKnownKeys));
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Result<std::vector<Option>> split_options(std::string_view text) {
  std::string compact;
  for (char c : text)
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') compact += c;
  std::vector<Option> options;
  std::size_t at = 0;
  while (at < compact.size()) {
    const std::size_t colon = compact.find(':', at);
    if (colon == std::string::npos)
      return fail(ErrorKind::usage, fmt::format("\"{}\" has no value", compact.substr(at)), std::string(kWhere),
                  "write key:value,key:value");
    Option option{compact.substr(at, colon - at), {}, false};
    const std::size_t begin = colon + 1;
    option.is_list = begin < compact.size() && compact[begin] == '[';
    const std::size_t end =
        option.is_list ? compact.find(']', begin) : std::min(compact.find(',', begin), compact.size());
    if (end == std::string::npos)
      return fail(ErrorKind::usage, fmt::format("the list of {} has no closing bracket", option.key),
                  std::string(kWhere), "write key:[a:b,c:d]");
    const std::size_t skip = option.is_list ? 1 : 0;
    option.value = compact.substr(begin + skip, end - begin - skip);
    at = end + skip;
    if (at < compact.size() && compact[at] != ',')
      return fail(ErrorKind::usage, fmt::format("expected a comma after {}", option.key), std::string(kWhere));
    ++at;
    options.push_back(std::move(option));
  }
  return options;
}

Result<Bytes> parse_megabytes(const Option& option, Bytes least) {
  const auto value = parse_number<std::uint64_t>(option.value);
  if (!value || option.is_list || *value < least)
    return bad_value(option, fmt::format("a whole number of MiB ≥ {}", least));
  return std::min(*value, kMaxMegabytes) * kMiB;
}

Result<bool> parse_bool(const Option& option) {
  if (option.value == "True") return true;
  if (option.value == "False") return false;
  return bad_value(option, "True or False");
}

Result<double> parse_fraction(const Option& option, bool open) {
  const auto value = parse_number<double>(option.value);
  const bool inside = value && (open ? *value > 0 && *value < 1 : *value >= 0 && *value <= 1);
  if (!inside) return bad_value(option, open ? "a number between 0 and 1, both excluded" : "a number from 0 to 1");
  return *value;
}

/// 2.2: the table of roundup_power2_divisions, "v" or "[b1:v1,…,>:vk]".
Result<std::array<std::uint32_t, 16>> parse_divisions(const Option& option) {
  constexpr std::string_view kAccepted = "a power of two, or a list [256:1,512:2,>:4] of MB (powers of two) and values";
  std::array<std::uint32_t, 16> table{};
  if (!option.is_list) {
    const auto value = parse_number<std::uint32_t>(option.value);
    if (!value || !std::has_single_bit(*value)) return bad_value(option, kAccepted);
    table.fill(*value);
    return table;
  }
  std::string_view rest = option.value;
  std::size_t last = 0;
  bool first = true;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const std::size_t colon = pair.find(':');
    if (colon == std::string_view::npos) return bad_value(option, kAccepted);
    const auto value = parse_number<std::uint32_t>(pair.substr(colon + 1));
    if (!value || (*value != 0 && !std::has_single_bit(*value))) return bad_value(option, kAccepted);
    const std::string_view bound = pair.substr(0, colon);
    if (bound == ">") {
      for (std::size_t k = last + 1; k < table.size(); ++k) table[k] = *value;
      continue;
    }
    const auto megabytes = parse_number<std::uint64_t>(bound);
    if (!megabytes || !std::has_single_bit(*megabytes)) return bad_value(option, kAccepted);
    last = std::min<std::size_t>(std::bit_width(*megabytes) - 1, table.size() - 1);
    if (first) std::fill_n(table.begin(), last, *value);
    table[last] = *value;
    first = false;
  }
  if (option.value.empty()) return bad_value(option, kAccepted);
  return table;
}

template <class T>
std::optional<Error> assign(T& target, Result<T> value) {
  if (!value) return std::move(value.error());
  target = std::move(*value);
  return std::nullopt;
}

/// Numbers of the pinned host memory's allocator, which is not modelled (parsePinnedNumRegisterThreads,
/// parsePinnedReserveSegmentSize).
std::optional<Error> check_pinned(const Option& option) {
  const auto value = option.is_list ? std::nullopt : parse_number<std::uint64_t>(option.value);
  const bool threads = option.key == "pinned_num_register_threads";
  if (threads && (!value || !std::has_single_bit(*value) || *value > kMaxPinnedThreads))
    return bad_value(option, fmt::format("a power of two, at most {}", kMaxPinnedThreads)).value();
  if (!threads && (!value || *value == 0)) return bad_value(option, "a whole number of MiB ≥ 1").value();
  return std::nullopt;
}

std::optional<Error> apply_option(const Option& option, AllocatorConfig& config) {
  const std::string_view key = option.key;
  const Bytes large_mb = config.large_segment_size / kMiB;
  if (key == "max_split_size_mb") return assign(config.max_split_size, parse_megabytes(option, large_mb));
  if (key == "roundup_power2_divisions") return assign(config.roundup_power2_divisions, parse_divisions(option));
  if (key == "garbage_collection_threshold")
    return assign(config.garbage_collection_threshold, parse_fraction(option, true));
  if (key == "expandable_segments") return assign(config.expandable_segments, parse_bool(option));
  if (config.rules.shared_parser && key == "max_non_split_rounding_mb")
    return assign(config.max_non_split_rounding, parse_megabytes(option, large_mb));
  if (config.rules.shared_parser && key == "per_process_memory_fraction")
    return assign(config.per_process_memory_fraction, parse_fraction(option, false));
  if (config.rules.preemptive_oom && key == "throw_on_cudamalloc_oom")
    return assign(config.throw_on_cudamalloc_oom, parse_bool(option));
  if (key == "backend") {
    if (option.value == "native") return std::nullopt;
    return Error{ErrorKind::usage, fmt::format("backend \"{}\" has no caching allocator to model", option.value),
                 std::string(kWhere), "only backend:native is modelled"};
  }
  const auto flag = std::find(kIgnoredFlags.begin(), kIgnoredFlags.end(), key);
  if (bool ignored; flag != kIgnoredFlags.end()) return assign(ignored, parse_bool(option));
  if (key == "pinned_num_register_threads" || key == "pinned_reserve_segment_size_mb") return check_pinned(option);
  return unknown_key(key).value();
}

}  // namespace

Result<AllocatorConfig> parse_alloc_conf(std::string_view text, std::string_view pytorch) {
  AllocatorConfig config;
  if (auto error = assign(config.rules, allocator_rules(pytorch))) return tl::unexpected<Error>(std::move(*error));
  const Result<std::vector<Option>> options = split_options(text);
  FORESHARD_TRY(options);
  // large_segment_size_mb is parsed before all others: it bounds them and is max_non_split_rounding's default.
  const bool has_large = config.rules.shared_parser;
  for (const Option& option : *options) {
    if (!has_large || option.key != "large_segment_size_mb") continue;
    if (auto error = assign(config.large_segment_size, parse_megabytes(option, 11)))
      return tl::unexpected<Error>(std::move(*error));
    config.max_non_split_rounding = config.large_segment_size;
  }
  for (const Option& option : *options) {
    if (has_large && option.key == "large_segment_size_mb") continue;
    if (auto error = apply_option(option, config)) return tl::unexpected<Error>(std::move(*error));
  }
  return config;
}

}  // namespace foreshard
