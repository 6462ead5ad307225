#include "sim/ranks/jitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace foreshard::sim {
namespace {

constexpr std::array<std::pair<std::string_view, Spread Jitter::*>, 4> kParts{
    {{"kernels", &Jitter::kernels}, {"host", &Jitter::host}, {"gpus", &Jitter::gpus}, {"hosts", &Jitter::hosts}}};
constexpr std::array<std::string_view, 2> kKinds{"normal", "lognormal"};  // by Spread::Kind

tl::unexpected<Error> refuse(std::string_view part, const std::string& why) {
  return fail(ErrorKind::usage, fmt::format("--jitter '{}': {}", part, why), {},
              "as in --jitter kernels=lognormal:2%,host=lognormal:10%,gpus=normal:1%");
}

Result<Spread> parse_spread(std::string_view part, std::string_view text) {
  Spread out;
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (kind != kKinds[0] && kind != kKinds[1]) return refuse(part, "the distribution is normal or lognormal");
  out.kind = kind == kKinds[0] ? Spread::Kind::normal : Spread::Kind::lognormal;
  std::string_view number = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (number.empty() || number.back() != '%') return refuse(part, "the standard deviation is in percent of the mean");
  number.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), percent);
  const double most = 100 * (out.kind == Spread::Kind::normal ? Spread::kMaxNormal : Spread::kMaxLognormal);
  if (error != std::errc() || end != number.data() + number.size() || !(percent > 0 && percent <= most))
    return refuse(part, fmt::format("'{}' is no percentage above 0 and up to {:.0f}{}", number, most,
                                    out.kind == Spread::Kind::normal ? ", as normal; lognormal reaches further" : ""));
  out.deviation = percent / 100;
  return out;
}

}  // namespace

Result<Jitter> parse_jitter(std::string_view text) {
  Jitter out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return refuse(part, "is not WHAT=DISTRIBUTION:PERCENT%");
    const auto known = std::find_if(kParts.begin(), kParts.end(),
                                    [&](const auto& one) { return one.first == part.substr(0, equals); });
    if (known == kParts.end()) return refuse(part, "what is drawn is one of kernels, host, gpus, hosts");
    if (out.*known->second != Spread{}) return refuse(part, fmt::format("{} are said twice", known->first));
    auto spread = parse_spread(part, part.substr(equals + 1));
    FORESHARD_TRY(spread);
    out.*known->second = *spread;
  }
  return out;
}

std::string text_of(const Jitter& jitter) {
  std::string out;
  for (const auto& [name, spread] : kParts) {
    const Spread& one = jitter.*spread;
    if (one.deviation > 0)
      out += fmt::format("{}{}={}:{:.4g}%", out.empty() ? "" : ",", name, kKinds[static_cast<std::size_t>(one.kind)],
                         100 * one.deviation);
  }
  return out;
}

}  // namespace foreshard::sim
