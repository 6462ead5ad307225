// "/valid_range": the range that the numbers were found on.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/device/collective_names.hpp"
#include "core/kernel/kernel_enum_names.hpp"
#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

/// [least, most], whole numbers in this order, or nothing where the key is absent.
template <class T>
std::optional<CoveredRange<T>> read_range(ProfileReader& reader, const Json& valid_range, std::string_view key) {
  const Json* pair = reader.member(valid_range, "/valid_range", key, false);
  if (pair == nullptr) return std::nullopt;
  const bool right = pair->is_array() && pair->size() == 2 && (*pair)[0].is_number_unsigned() &&
                     (*pair)[1].is_number_unsigned() &&
                     (*pair)[0].get<std::uint64_t>() <= (*pair)[1].get<std::uint64_t>() &&
                     (*pair)[1].get<std::uint64_t>() <= std::numeric_limits<T>::max();
  if (right) return CoveredRange<T>{(*pair)[0].get<T>(), (*pair)[1].get<T>()};
  reader.fail(fmt::format("/valid_range/{}", key), "[least, most] is expected here, two whole numbers that ascend");
  return std::nullopt;
}

/// A list of words; their enumerators are the words' places in `words`.
template <class T>
std::vector<T> read_words(ProfileReader& reader, const Json& valid_range, std::string_view key,
                          std::span<const std::string_view> words) {
  std::vector<T> out;
  const Json* list = reader.member(valid_range, "/valid_range", key, false);
  if (list == nullptr) return out;
  const std::string path = fmt::format("/valid_range/{}", key);
  if (!list->is_array()) {
    reader.fail(path, "a list of names is expected here");
    return out;
  }
  for (std::size_t i = 0; i < list->size(); ++i)
    out.push_back(static_cast<T>(reader.word((*list)[i], fmt::format("{}/{}", path, i), words)));
  return out;
}

}  // namespace

void read_valid_range(ProfileReader& reader, const Json& valid_range, MachineProfile& out) {
  static constexpr std::array<std::string_view, 7> kKeys{"bytes",      "ranks",   "nodes", "dtypes",
                                                         "transports", "kernels", "source"};
  reader.known_keys(valid_range, "/valid_range", kKeys);
  out.valid_range.bytes = read_range<Bytes>(reader, valid_range, "bytes");
  out.valid_range.ranks = read_range<std::uint32_t>(reader, valid_range, "ranks");
  out.valid_range.nodes = read_range<std::uint32_t>(reader, valid_range, "nodes");
  out.valid_range.dtypes = read_words<DType>(reader, valid_range, "dtypes", kAllDTypeNames);
  out.valid_range.transports = read_words<Transport>(reader, valid_range, "transports", EnumNames<Transport>::kNames);
  out.valid_range.kernels = read_words<KernelClass>(reader, valid_range, "kernels", kDashedNames<KernelClass>);
  reader.source_only(valid_range, "/valid_range");
  if (!reader.error()) out.valid_range.source = valid_range["source"].get<std::string>();
}

}  // namespace foreshard::sim
