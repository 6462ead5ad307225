// "/contention" and "/rings": how much a kernel and what runs beside it slow each other.
#include <fmt/format.h>

#include <array>

#include "sim/machine/sections.hpp"
#include "sim/machine/words.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, kNeighbours> kNeighbourWords{"ring", "copy-engine", "side-kernel"};

}  // namespace

void read_contention(ProfileReader& reader, const Json& contention, MachineProfile& out) {
  static constexpr std::array<std::string_view, 3> kKeys{"kernel", "neighbour", "source"};
  reader.known_keys(contention, "/contention", kKernelClassWords);
  for (std::size_t c = 0; c < kKernelClasses; ++c) {
    const std::string path = fmt::format("/contention/{}", kKernelClassWords[c]);
    const Json* row = reader.member(contention, "/contention", kKernelClassWords[c], false);
    if (row == nullptr) continue;  // a class without a row is slowed by nothing
    reader.known_keys(*row, path, kNeighbourWords);
    for (std::size_t n = 0; n < kNeighbours; ++n) {
      const std::string place = fmt::format("{}/{}", path, kNeighbourWords[n]);
      const Json* pair = reader.member(*row, path, kNeighbourWords[n], false);
      if (pair == nullptr) continue;
      reader.known_keys(*pair, place, kKeys);
      out.contention[c][n] = {reader.number(*pair, place, "kernel", 1), reader.number(*pair, place, "neighbour", 1)};
      reader.source(*pair, place);
    }
  }
}

void read_rings(ProfileReader& reader, const Json& rings, MachineProfile& profile) {
  static constexpr std::array<std::string_view, 4> kKeys{"sms", "symmetric_sms", "share_of_two", "two_slowdown"};
  reader.known_keys(rings, "/rings", kKeys);
  Rings& out = profile.rings;
  out.sms = reader.constant(rings, "/rings", "sms", "count");
  out.symmetric_sms = reader.constant(rings, "/rings", "symmetric_sms", "count", true);
  out.share_of_two = reader.constant(rings, "/rings", "share_of_two", "ratio");
  out.two_slowdown = reader.constant(rings, "/rings", "two_slowdown", "ratio");
  if (out.two_slowdown < 1) reader.fail("/rings/two_slowdown/value", "a slowdown is at least 1");
}

}  // namespace foreshard::sim
