#include "sim/calibrate/probe_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/base/strict_json.hpp"
#include "core/base/suggest.hpp"
#include "core/device/collective_names.hpp"
#include "core/kernel/kernel_enum_names.hpp"
#include "sim/calibrate/input_json.hpp"
#include "sim/machine/renamed_keys.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;
using Words = std::span<const std::string_view>;

/// A row's "variant" is a transport's name, or the one that the reference runs' script gave it.
struct Alias {
  std::string_view text;
  Transport transport;
};
constexpr std::array kAliases{
    Alias{"nccl-symm", Transport::symmetric},
    Alias{"nccl-zero-cta", Transport::copy_engine},
    Alias{"torch-low-contention", Transport::low_contention},
    Alias{"registered", Transport::nccl_registered},
    Alias{"copy_engine", Transport::copy_engine},
};
/// gpu_bench_collectives says the collective again in front, and is no program of PyTorch's: "ag:nccl".
constexpr std::array<std::string_view, 2> kBenchPrefixes{"ag:", "rs:"};
constexpr std::string_view kBenchLine = "BENCH ";
/// Keys of files that older probes wrote.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRenamed{
    {{"widens", "upcasts"}, {"compute_alone_us", "compute_isolated_us"}, {"comm_alone_us", "comm_isolated_us"}}};
constexpr auto& kCollectives = EnumNames<CollectiveKind>::kNames;
/// The collectives, and what else a row may be of.
constexpr auto kOperations = [] {
  constexpr std::array<std::string_view, 4> kOthers{"contention", "error", "path", "pool"};
  std::array<std::string_view, kCollectives.size() + kOthers.size()> words{};
  std::copy(kOthers.begin(), kOthers.end(), std::copy(kCollectives.begin(), kCollectives.end(), words.begin()));
  return words;
}();
constexpr std::array<std::string_view, 5> kRates{"hbm_copy", "peer_copy", "gemm", "gemm_fp32", "gemm_and_copies"};

class ProbeRow {
 public:
  ProbeRow(const Json& row, std::string place) : json_(row), object_(row, std::move(place)) {}

  InputObject& object() { return object_; }
  void known_keys(Words known) {
    if (!json_.is_object()) return;
    if (auto unknown = unknown_key(json_, known)) object_.fail(std::move(unknown->what), std::move(unknown->hint));
  }
  /// The place of the row's word in `known`; 0 and an error where it is none.
  std::size_t word(const char* key, Words known) { return word(key, object_.text(key), known); }
  std::size_t word(const char* key, std::string_view given, Words known) {
    const auto it = std::find(known.begin(), known.end(), given);
    if (it != known.end()) return static_cast<std::size_t>(it - known.begin());
    object_.fail(fmt::format("unknown {} '{}'", key, given), suggestion(given, known));
    return 0;
  }
  [[nodiscard]] bool of_benchmark() {
    const std::string text = object_.text("variant");
    return std::any_of(kBenchPrefixes.begin(), kBenchPrefixes.end(),
                       [&](std::string_view prefix) { return text.starts_with(prefix); });
  }
  /// Without the benchmark's prefix.
  std::string variant() {
    const std::string text = object_.text("variant");
    return of_benchmark() ? text.substr(kBenchPrefixes.front().size()) : text;
  }
  Transport transport() {
    constexpr auto& kNames = EnumNames<Transport>::kNames;
    std::vector<std::string_view> known(kNames.begin(), kNames.end());
    for (const Alias& alias : kAliases) known.push_back(alias.text);
    const std::size_t place = word("variant", variant(), known);
    return place < kNames.size() ? static_cast<Transport>(place) : kAliases[place - kNames.size()].transport;
  }
  /// Of a reduction: its result is of a wider dtype than what is sent.
  bool upcasts(CollectiveKind kind) {
    const bool upcasts = object_.flag("upcasts");
    if (upcasts && kind == CollectiveKind::all_gather) object_.fail("'upcasts' is said of an all-gather");
    return upcasts;
  }
  /// Of a reduction: what is sent, where that is said.
  DType dtype(CollectiveKind kind) {
    if (!object_.has("dtype")) return DType::bfloat16;
    if (!adds(kind)) object_.fail("'dtype' is said of a collective that adds nothing");
    return static_cast<DType>(word("dtype", object_.text("dtype"), kAllDTypeNames));
  }
  std::uint32_t whole(const char* key, std::uint32_t least) {
    return static_cast<std::uint32_t>(object_.whole(key, least, 1000000));
  }

 private:
  const Json& json_;
  InputObject object_;
};

void read_collective(ProbeRow& row, std::size_t kind, Measurements& out) {
  static constexpr std::array<std::string_view, 9> kKeys{
      "variant", "world", "ranks_per_node", "op", "total_bytes", "us", "busbw_GBps", "upcasts", "dtype"};
  row.known_keys(kKeys);
  // foreshard's own, and NCCL with settings of the benchmark's: nothing that is priced by these names.
  if (row.of_benchmark() && (row.variant().starts_with("own") || row.variant().find(',') != std::string::npos))
    return out.note("rows of foreshard's own collectives, or of settings that are not priced");
  CollectiveSample sample;
  sample.by_pytorch = !row.of_benchmark();
  sample.kind = static_cast<CollectiveKind>(kind);
  sample.transport = row.transport();
  sample.ranks = row.whole("world", 2);
  sample.ranks_per_node = row.object().has("ranks_per_node") ? row.whole("ranks_per_node", 1) : sample.ranks;
  if (sample.ranks_per_node > sample.ranks) row.object().fail("'ranks_per_node' is more than 'world'");
  sample.bytes = row.object().size("total_bytes", 1);
  sample.us = row.object().positive("us");
  sample.upcasts = row.upcasts(sample.kind);
  sample.dtype = row.dtype(sample.kind);
  out.collectives.push_back(sample);
}

/// "gemm8192" is a GEMM, "copy512MB" moves memory.
KernelClass kernel_class(ProbeRow& row, const std::string& kernel) {
  if (kernel.starts_with("gemm")) return KernelClass::gemm;
  if (kernel.starts_with("attention")) return KernelClass::attention;
  if (!kernel.starts_with("copy"))
    row.object().fail(fmt::format("unknown compute '{}'", kernel), "it begins with gemm, attention or copy");
  return KernelClass::memory_bound;
}

void read_contention(ProbeRow& row, Measurements& out) {
  static constexpr std::array<std::string_view, 13> kKeys{"variant",
                                                          "world",
                                                          "op",
                                                          "total_bytes",
                                                          "compute",
                                                          "comm",
                                                          "compute_isolated_us",
                                                          "comm_isolated_us",
                                                          "slowdown_comm",
                                                          "compute_under_comm_us",
                                                          "comm_under_compute_us",
                                                          "slowdown_compute",
                                                          "upcasts"};
  row.known_keys(kKeys);
  ContentionSample sample;
  sample.transport = row.transport();
  sample.ranks = row.whole("world", 2);
  sample.kernel = row.object().text("compute");
  sample.kernel_class = kernel_class(row, sample.kernel);
  sample.kind = static_cast<CollectiveKind>(row.word("comm", kCollectives));
  if (row.object().has("total_bytes")) sample.bytes = row.object().size("total_bytes", 1);
  sample.kernel_isolated_us = row.object().positive("compute_isolated_us");
  sample.kernel_concurrent_us = row.object().positive("compute_under_comm_us");
  sample.collective_isolated_us = row.object().positive("comm_isolated_us");
  sample.collective_concurrent_us = row.object().positive("comm_under_compute_us");
  sample.upcasts = row.upcasts(sample.kind);
  out.contention.push_back(std::move(sample));
}

void read_rate(ProbeRow& row, Measurements& out) {
  static constexpr std::array<std::string_view, 11> kKeys{
      "what",    "pattern",   "bytes_per_copy", "gbps_per_gpu", "us", "m", "tflops", "gbps_read_plus_write",
      "gemm_us", "copies_us", "both_us"};
  row.known_keys(kKeys);
  switch (row.word("what", kRates)) {
    case 0:
      out.rates.push_back({RateSample::What::hbm_copy, 0, row.object().positive("gbps_read_plus_write")});
      return;
    case 1:
      // Other patterns go through host calls that make streams wait for each other; one pair shows the engine.
      if (row.object().text("pattern") != "one_pair") return out.note("peer copies of other patterns than one pair");
      out.rates.push_back({RateSample::What::peer_copy, row.object().whole("bytes_per_copy", 1, Bytes{1} << 50),
                           row.object().positive("gbps_per_gpu")});
      return;
    case 2:
      out.rates.push_back({RateSample::What::gemm_bfloat16, row.whole("m", 1), row.object().positive("tflops")});
      return;
    case 3:
      out.rates.push_back({RateSample::What::gemm_float32, row.whole("m", 1), row.object().positive("tflops")});
      return;
    default:
      out.note("GEMMs and copies at once: only said for the record");
  }
}

/// `place` is what errors name.
Result<void> read_row(Json json, const std::string& place, Measurements& out) {
  for (const auto& [before, now] : kRenamed) FORESHARD_TRY(rename_key(json, before, now, place));
  ProbeRow row(json, place);
  if (row.object().has("what") && !row.object().has("op")) {
    read_rate(row, out);
  } else if (const std::size_t operation = row.word("op", kOperations); operation < kCollectives.size()) {
    read_collective(row, operation, out);
  } else if (kOperations[operation] == "contention") {
    read_contention(row, out);
  } else {
    out.note(kOperations[operation] == "error" ? "rows of what could not be measured"
                                               : "rows of what ran and what memory it took");
  }
  if (row.object().error() != nullptr) return tl::unexpected(*row.object().error());
  return {};
}

bool has_marked_lines(std::string_view text) {
  constexpr std::string_view kRow = "BENCH {";
  return text.starts_with(kRow) || text.find("\n" + std::string(kRow)) != std::string_view::npos;
}

std::string_view line_of(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  const std::size_t first = std::min(line.find_first_not_of(" \t\r"), line.size());
  line.remove_prefix(first);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

Result<Measurements> read_probe_file(const Json& root, std::string_view where) {
  Measurements out;
  out.format = "probe file";
  for (std::size_t i = 0; i < root.size(); ++i)
    FORESHARD_TRY(read_row(root[i], fmt::format("{} row {}", where, i), out));
  return out;
}

bool looks_like_probe_lines(std::string_view text) {
  if (has_marked_lines(text)) return true;
  // A document over several lines does not begin with a line that is an object for itself.
  while (!text.empty()) {
    const std::string_view line = line_of(text);
    if (line.empty()) continue;
    return line.starts_with("{") && line.ends_with("}") && text.find('{') != std::string_view::npos;
  }
  return false;
}

Result<Measurements> read_probe_lines(std::string_view text, std::string_view where) {
  Measurements out;
  out.format = "probe file";
  const bool marked = has_marked_lines(text);
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = line_of(text);
    if (line.empty()) continue;
    if (marked && !line.starts_with(kBenchLine)) {
      out.note("lines that are no measurement");
      continue;
    }
    if (marked) line.remove_prefix(kBenchLine.size());
    const std::string place = fmt::format("{} line {}", where, number);
    const auto json = parse_strict_json(line, place, "each line is one row of a probe file (docs/machines.md)");
    FORESHARD_TRY(json);
    FORESHARD_TRY(read_row(*json, place, out));
  }
  return out;
}

}  // namespace foreshard::sim
