#include "gpu/bootstrap/slurm_lists.hpp"

#include <fmt/core.h>

#include <charconv>
#include <optional>

namespace foreshard::gpu {
namespace {

constexpr std::size_t kMaxText = 1 << 20;  // of all names together

tl::unexpected<Error> unreadable(std::string_view list, std::string_view what) {
  return fail(ErrorKind::usage, fmt::format("'{:.80}' is no list as Slurm writes it: {}", list, what));
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Calls `each(piece)` for the pieces between the commas that are outside brackets; false stops.
template <class Each>
bool split(std::string_view text, Each each) {
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') inside = true;
    if (i < text.size() && text[i] == ']') inside = false;
    if (i < text.size() && (text[i] != ',' || inside)) continue;
    if (!each(text.substr(begin, i - begin))) return false;
    begin = i + 1;
  }
  return !inside;
}

/// The numbers of one bracket, "01-04,7", as texts; nothing where it is malformed or too long.
std::optional<std::vector<std::string>> bracket(std::string_view text) {
  std::vector<std::string> out;
  const bool good = split(text, [&](std::string_view piece) {
    const std::size_t dash = piece.find('-');
    const std::string_view low = piece.substr(0, dash);
    const auto first = number(low);
    const auto last = dash == std::string_view::npos ? first : number(piece.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first >= kMaxHosts - out.size()) return false;
    if (low.size() > 10) return false;  // zeros in front count towards the width
    for (std::uint64_t n = *first; n <= *last; ++n) out.push_back(fmt::format("{:0{}}", n, low.size()));
    return true;
  });
  return good ? std::optional(std::move(out)) : std::nullopt;
}

/// Appends the hosts of one item, "node[1-2]rack[0-1]"; false where it is malformed or too much.
bool expand(std::string_view item, std::vector<std::string>& out, std::size_t& text_size) {
  std::vector<std::string> names{""};
  while (!item.empty()) {
    const std::size_t open = item.find('[');
    const std::string_view plain = item.substr(0, open);
    if (plain.find(']') != std::string_view::npos) return false;
    for (std::string& name : names) name += plain;
    if (open == std::string_view::npos) break;
    const std::size_t close = item.find(']', open);
    if (close == std::string_view::npos) return false;
    const auto numbers = bracket(item.substr(open + 1, close - open - 1));
    if (!numbers || names.size() * numbers->size() > kMaxHosts) return false;
    if (names.size() * numbers->size() * (names[0].size() + 10) > kMaxText * 4) return false;
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const std::string& n : *numbers) longer.push_back(name + n);
    names = std::move(longer);
    item.remove_prefix(close + 1);
  }
  for (std::string& name : names) {
    text_size += name.size();
    if (name.empty() || out.size() >= kMaxHosts || text_size > kMaxText) return false;
    out.push_back(std::move(name));
  }
  return true;
}

}  // namespace

Result<std::vector<std::string>> slurm_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  std::size_t text_size = 0;
  if (list.size() > kMaxText) return unreadable(list, "it is too long");
  if (!split(list, [&](std::string_view item) { return expand(item, hosts, text_size); }))
    return unreadable(list, "host names with numbers in brackets were expected, host[01-04,7]");
  return hosts;
}

Result<std::vector<std::uint32_t>> slurm_tasks_per_node(std::string_view list) {
  std::vector<std::uint32_t> tasks;
  const bool good = split(list, [&](std::string_view item) {
    const std::size_t open = item.find("(x");
    const auto each = number(item.substr(0, open));
    std::optional<std::uint32_t> nodes = 1;
    if (open != std::string_view::npos)
      nodes = item.ends_with(')') ? number(item.substr(open + 2, item.size() - open - 3)) : std::nullopt;
    if (!each || *each == 0 || !nodes || *nodes == 0 || *nodes > kMaxHosts - tasks.size()) return false;
    tasks.insert(tasks.end(), *nodes, *each);
    return true;
  });
  if (!good) return unreadable(list, "tasks per host were expected, 4(x2),3");
  return tasks;
}

}  // namespace foreshard::gpu
