#include "sim/calibrate/nccl_size.hpp"

#include <fmt/format.h>

#include <string>

#include "core/base/units.hpp"

namespace foreshard::sim {
namespace {

constexpr std::string_view kLetters = "kKmMgGtT";
constexpr std::string_view kHint =
    "write a number and a unit, as in 512, 64k, 128M, 1G (powers of 1024, as nccl-tests), 2MiB or 80GB (10^9)";

}  // namespace

Result<Bytes> parse_nccl_size(std::string_view text) {
  std::string written(text);
  const std::size_t letter = written.empty() ? std::string_view::npos : kLetters.find(written.back());
  if (letter != std::string_view::npos) {
    written.back() = "KMGT"[letter / 2];
    written += "iB";
  }
  auto bytes = parse_bytes(written);
  if (!bytes) return fail(ErrorKind::usage, fmt::format("'{}' is not a size", text), {}, std::string(kHint));
  return bytes;
}

Result<std::vector<Bytes>> parse_nccl_sizes(std::string_view text) {
  std::vector<Bytes> out;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = text.find(',');
    const auto bytes = parse_nccl_size(text.substr(0, end));
    FORESHARD_TRY(bytes);
    out.push_back(*bytes);
    if (end != std::string_view::npos) text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace foreshard::sim
