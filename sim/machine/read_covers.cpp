// "/covers": the range that the numbers were found on.
#include <fmt/format.h>

#include <array>

#include "core/device/collective_names.hpp"
#include "core/kernel/kernel_names.hpp"
#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

/// [least, most], whole numbers in this order, or nothing where the key is absent.
template <class T>
std::optional<CoveredRange<T>> read_range(ProfileReader& reader, const Json& covers, std::string_view key) {
  const Json* pair = reader.member(covers, "/covers", key, false);
  if (pair == nullptr) return std::nullopt;
  const bool right = pair->is_array() && pair->size() == 2 && (*pair)[0].is_number_unsigned() &&
                     (*pair)[1].is_number_unsigned() &&
                     (*pair)[0].get<std::uint64_t>() <= (*pair)[1].get<std::uint64_t>() &&
                     (*pair)[1].get<std::uint64_t>() <= std::numeric_limits<T>::max();
  if (right) return CoveredRange<T>{(*pair)[0].get<T>(), (*pair)[1].get<T>()};
  reader.fail(fmt::format("/covers/{}", key), "[least, most] is expected here, two whole numbers that ascend");
  return std::nullopt;
}

/// A list of words; their enumerators are the words' places in `words`.
template <class T>
std::vector<T> read_words(ProfileReader& reader, const Json& covers, std::string_view key,
                          std::span<const std::string_view> words) {
  std::vector<T> out;
  const Json* list = reader.member(covers, "/covers", key, false);
  if (list == nullptr) return out;
  const std::string path = fmt::format("/covers/{}", key);
  if (!list->is_array()) {
    reader.fail(path, "a list of words is expected here");
    return out;
  }
  for (std::size_t i = 0; i < list->size(); ++i)
    out.push_back(static_cast<T>(reader.word((*list)[i], fmt::format("{}/{}", path, i), words)));
  return out;
}

}  // namespace

void read_covers(ProfileReader& reader, const Json& covers, MachineProfile& out) {
  static constexpr std::array<std::string_view, 7> kKeys{"bytes",      "ranks",   "nodes", "dtypes",
                                                         "transports", "kernels", "source"};
  reader.known_keys(covers, "/covers", kKeys);
  std::array<std::string_view, kDTypes.size()> dtypes;
  for (std::size_t i = 0; i < dtypes.size(); ++i) dtypes[i] = kDTypes[i].name;
  out.covers.bytes = read_range<Bytes>(reader, covers, "bytes");
  out.covers.ranks = read_range<std::uint32_t>(reader, covers, "ranks");
  out.covers.nodes = read_range<std::uint32_t>(reader, covers, "nodes");
  out.covers.dtypes = read_words<DType>(reader, covers, "dtypes", dtypes);
  out.covers.transports = read_words<Transport>(reader, covers, "transports", EnumNames<Transport>::kNames);
  out.covers.kernels = read_words<KernelClass>(reader, covers, "kernels", kDashedNames<KernelClass>);
  reader.source_alone(covers, "/covers");
  if (!reader.error()) out.covers.source = covers["source"].get<std::string>();
}

}  // namespace foreshard::sim
