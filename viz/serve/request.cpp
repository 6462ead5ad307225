#include "viz/serve/request.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace foreshard::viz {
namespace {

tl::unexpected<Error> refuse() {
  return fail(ErrorKind::input, "not found: no resource has this name");
}

/// A number without sign, blanks or needless zeros.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text[0] == '0') return std::nullopt;
  return value;
}

/// Takes what stands before the next slash, with it.
std::optional<std::string_view> part(std::string_view& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view out = text.substr(0, slash);
  text.remove_prefix(slash + 1);
  return out;
}

/// Names of pieces: letters, digits and "/" (viz/pack/pack.hpp), "_" and "-"; no part is empty.
bool piece_name(std::string_view name) {
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '_' ||
           c == '-';
  });
  return letters && !name.empty() && name.front() != '/' && name.back() != '/' &&
         name.find("//") == std::string_view::npos;
}

/// What stands behind "/compare/".
Result<Asked> parse_comparison(std::string_view target) {
  const auto next = [&target]() -> std::optional<std::uint64_t> {
    const auto text = part(target);
    return text ? number(*text) : std::nullopt;
  };
  Asked out;
  out.what = Asked::What::comparison;
  const auto run = next(), other = run ? next() : std::nullopt;
  if (!other) return refuse();
  out.run = *run;
  out.other = *other;
  if (target.empty()) return out;
  const auto generation = next(), other_generation = generation ? next() : std::nullopt;
  if (!other_generation || !piece_name(target)) return refuse();
  out.what = Asked::What::comparison_piece;
  out.generation = *generation;
  out.other_generation = *other_generation;
  out.name = target;
  return out;
}

}  // namespace

Result<Asked> parse_target(std::string_view target) {
  Asked out;
  if (target.size() > kLongestTarget) return refuse();
  if (target == "/") return out;
  constexpr std::string_view kRun = "/run/", kCompare = "/compare/";
  if (target.starts_with(kCompare)) return parse_comparison(target.substr(kCompare.size()));
  if (!target.starts_with(kRun)) return refuse();
  target.remove_prefix(kRun.size());
  const auto run_part = part(target);
  const auto run = run_part ? number(*run_part) : std::nullopt;
  if (!run) return refuse();
  out.run = *run;
  if (target.empty() || target == "sql") {
    out.what = target.empty() ? Asked::What::page : Asked::What::sql;
    return out;
  }
  constexpr std::string_view kProgress = "progress?from=";
  if (target.starts_with(kProgress)) {
    const auto from = number(target.substr(kProgress.size()));
    if (!from) return refuse();
    out.what = Asked::What::progress;
    out.from = *from;
    return out;
  }
  const auto generation_part = part(target);
  const auto generation = generation_part ? number(*generation_part) : std::nullopt;
  if (!generation || !piece_name(target)) return refuse();
  out.what = Asked::What::piece;
  out.generation = *generation;
  out.name = target;
  return out;
}

bool own_host(std::string_view host, std::uint16_t port) {
  const std::string suffix = ":" + std::to_string(port);
  if (!host.ends_with(suffix)) return false;
  host.remove_suffix(suffix.size());
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

bool own_origin(std::string_view origin, std::uint16_t port) {
  constexpr std::string_view kScheme = "http://";
  return origin.starts_with(kScheme) && own_host(origin.substr(kScheme.size()), port);
}

bool own_site(std::string_view fetch_site) {
  return fetch_site.empty() || fetch_site == "same-origin" || fetch_site == "none";
}

}  // namespace foreshard::viz
