// What a browser may ask of the local server, and whether it is one of ours that asks. Used by server.cpp. Pure.
//
// A page of any web site can make a browser send requests to 127.0.0.1, and can give its own name that address (DNS
// rebinding). So a request counts only with a Host that names the loopback and our port, and with an Origin, where
// there is one, of that same host; a browser that says it comes from elsewhere (Sec-Fetch-Site) is believed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::viz {

struct Asked {
  enum class What : std::uint8_t {
    index,             ///< "/": the only run's page, or the list of them
    page,              ///< "/run/0/"
    piece,             ///< "/run/0/3/tracks/1": `generation` 3 of the run, its piece "tracks/1"
    sql,               ///< "/run/0/sql": the question is the body
    progress,          ///< "/run/0/progress?from=123": the lines of a progress file from byte 123 on
    comparison,        ///< "/compare/0/1/": the page of run 0 beside run 1, `other`
    comparison_piece,  ///< "/compare/0/1/3/2/a/meta": of their generations 3 and 2
  };
  What what = What::index;
  std::size_t run = 0;
  std::uint64_t generation = 0;
  std::string name;
  std::uint64_t from = 0;
  std::size_t other = 0;
  std::uint64_t other_generation = 0;

  friend bool operator==(const Asked&, const Asked&) = default;
};

/// Longer targets are refused.
inline constexpr std::size_t kLongestTarget = 2048;

/// The target of a request line. An error (`input`) for everything that is not one of the forms above: no escapes, no
/// dots, no empty parts, no other queries.
[[nodiscard]] Result<Asked> parse_target(std::string_view target);

/// "127.0.0.1:8347", "localhost:8347" or "[::1]:8347" for port 8347.
[[nodiscard]] bool own_host(std::string_view host, std::uint16_t port);
/// "http://" and such a host.
[[nodiscard]] bool own_origin(std::string_view origin, std::uint16_t port);
/// A Sec-Fetch-Site header's value: "same-origin", "none" (typed by the person), or nothing from older browsers.
[[nodiscard]] bool own_site(std::string_view fetch_site);

}  // namespace foreshard::viz
