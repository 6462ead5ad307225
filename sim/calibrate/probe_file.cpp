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
};
/// Keys of files that older probes wrote.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRenamed{
    {{"widens", "upcasts"}, {"compute_alone_us", "compute_isolated_us"}, {"comm_alone_us", "comm_isolated_us"}}};
constexpr auto& kCollectives = EnumNames<CollectiveKind>::kNames;
/// The collectives, and what else a row may be of.
constexpr auto kOperations = [] {
  std::array<std::string_view, kCollectives.size() + 2> words{};
  std::copy(kCollectives.begin(), kCollectives.end(), words.begin());
  words[kCollectives.size()] = "contention";
  words[kCollectives.size() + 1] = "error";
  return words;
}();
constexpr std::array<std::string_view, 5> kRates{"hbm_copy", "peer_copy", "gemm", "gemm_fp32", "gemm_and_copies"};

class Row {
 public:
  Row(const Json& row, std::size_t number, std::string_view where)
      : json_(row), object_(row, fmt::format("{} row {}", where, number)) {}

  InputObject& object() { return object_; }
  void known_keys(Words known) {
    if (!json_.is_object()) return;
    if (auto unknown = unknown_key(json_, known)) object_.fail(std::move(unknown->what), std::move(unknown->hint));
  }
  /// The place of the row's word in `known`; 0 and an error where it is none.
  std::size_t word(const char* key, Words known) {
    const std::string given = object_.text(key);
    const auto it = std::find(known.begin(), known.end(), given);
    if (it != known.end()) return static_cast<std::size_t>(it - known.begin());
    object_.fail(fmt::format("unknown {} '{}'", key, given), suggestion(given, known));
    return 0;
  }
  Transport transport() {
    constexpr auto& kNames = EnumNames<Transport>::kNames;
    std::vector<std::string_view> known(kNames.begin(), kNames.end());
    for (const Alias& alias : kAliases) known.push_back(alias.text);
    const std::size_t place = word("variant", known);
    return place < kNames.size() ? static_cast<Transport>(place) : kAliases[place - kNames.size()].transport;
  }
  /// Of a reduction: its result is of a wider dtype than what is sent.
  bool upcasts(CollectiveKind kind) {
    const bool upcasts = object_.flag("upcasts");
    if (upcasts && kind == CollectiveKind::all_gather) object_.fail("'upcasts' is said of an all-gather");
    return upcasts;
  }
  std::uint32_t whole(const char* key, std::uint32_t least) {
    return static_cast<std::uint32_t>(object_.whole(key, least, 1000000));
  }

 private:
  const Json& json_;
  InputObject object_;
};

void read_collective(Row& row, std::size_t kind, Measurements& out) {
  static constexpr std::array<std::string_view, 8> kKeys{"variant",     "world", "ranks_per_node", "op",
                                                         "total_bytes", "us",    "busbw_GBps",     "upcasts"};
  row.known_keys(kKeys);
  CollectiveSample sample;
  sample.kind = static_cast<CollectiveKind>(kind);
  sample.transport = row.transport();
  sample.ranks = row.whole("world", 2);
  sample.ranks_per_node = row.object().has("ranks_per_node") ? row.whole("ranks_per_node", 1) : sample.ranks;
  if (sample.ranks_per_node > sample.ranks) row.object().fail("'ranks_per_node' is more than 'world'");
  sample.bytes = row.object().whole("total_bytes", 1, Bytes{1} << 50);
  sample.us = row.object().positive("us");
  sample.upcasts = row.upcasts(sample.kind);
  out.collectives.push_back(sample);
}

/// "gemm8192" is a GEMM, "copy512MB" moves memory.
KernelClass kernel_class(Row& row, const std::string& kernel) {
  if (kernel.starts_with("gemm")) return KernelClass::gemm;
  if (kernel.starts_with("attention")) return KernelClass::attention;
  if (!kernel.starts_with("copy"))
    row.object().fail(fmt::format("unknown compute '{}'", kernel), "it begins with gemm, attention or copy");
  return KernelClass::memory_bound;
}

void read_contention(Row& row, Measurements& out) {
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
  if (row.object().has("total_bytes")) sample.bytes = row.object().whole("total_bytes", 1, Bytes{1} << 50);
  sample.kernel_isolated_us = row.object().positive("compute_isolated_us");
  sample.kernel_concurrent_us = row.object().positive("compute_under_comm_us");
  sample.collective_isolated_us = row.object().positive("comm_isolated_us");
  sample.collective_concurrent_us = row.object().positive("comm_under_compute_us");
  sample.upcasts = row.upcasts(sample.kind);
  out.contention.push_back(std::move(sample));
}

void read_rate(Row& row, Measurements& out) {
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

}  // namespace

Result<Measurements> read_probe_file(const Json& root, std::string_view where) {
  Measurements out;
  out.format = "probe file";
  for (std::size_t i = 0; i < root.size(); ++i) {
    Json json = root[i];
    for (const auto& [before, now] : kRenamed)
      FORESHARD_TRY(rename_key(json, before, now, fmt::format("{} row {}", where, i)));
    Row row(json, i, where);
    if (row.object().has("what") && !row.object().has("op")) {
      read_rate(row, out);
    } else if (const std::size_t operation = row.word("op", kOperations); operation < kCollectives.size()) {
      read_collective(row, operation, out);
    } else if (kOperations[operation] == "contention") {
      read_contention(row, out);
    } else {
      out.note("rows of what could not be measured");
    }
    if (row.object().error() != nullptr) return tl::unexpected(*row.object().error());
  }
  return out;
}

}  // namespace foreshard::sim
