#include "cli/reports/collective_sizes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/base/units.hpp"
#include "core/device/collective_names.hpp"

namespace foreshard::cli {
namespace {

std::uint32_t nodes_of(const sim::CollectiveRequest& request) {
  return static_cast<std::uint32_t>(ceil_div(request.ranks, std::max(1U, request.ranks_per_node)));
}

std::string count_of(std::uint32_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// "+2.4 %".
std::string against_price(const CollectiveSize& size) {
  if (!size.runs_ring()) return "runs no ring";
  return change(size.price.time.us(), size.messages->time.us());
}

/// What `of` says of each size, once for sizes that follow one another and say the same.
template <class Of>
void print_by_size(std::ostream& out, const char* heading, const CollectiveSizes& all, Of of) {
  Table table({{heading}, {""}});
  for (std::size_t i = 0, end = 0; i < all.sizes.size(); i = end) {
    const std::string text = of(all.sizes[i]);
    for (end = i + 1; end < all.sizes.size() && of(all.sizes[end]) == text;) ++end;
    const std::string from = format_bytes(all.sizes[i].request.bytes);
    table.row(
        {end == i + 1 ? from : fmt::format("{} to {}", from, format_bytes(all.sizes[end - 1].request.bytes)), text});
  }
  out << '\n';
  table.print(out);
}

void print_sizes(std::ostream& out, const CollectiveSizes& all) {
  constexpr auto kRight = Table::Align::right;
  std::vector<Table::Column> columns{{"size", kRight},        {"time, us", kRight},         {"algbw, GB/s", kRight},
                                     {"busbw, GB/s", kRight}, {"from PyTorch, us", kRight}, {"held by"}};
  const bool messages = all.sizes.front().messages.has_value();
  if (messages) columns.insert(columns.end(), {{"messages, us", kRight}, {"to the price", kRight}, {"slowest hop"}});
  Table table(columns);
  for (const CollectiveSize& size : all.sizes) {
    std::vector<std::string> cells{format_bytes(size.request.bytes),
                                   fmt::format("{:.2f}", size.price.time.us()),
                                   fmt::format("{:.2f}", size.algorithm_gb_per_s()),
                                   fmt::format("{:.2f}", size.bus_gb_per_s()),
                                   fmt::format("{:.2f}", size.price.period.us()),
                                   relief_words(size.holding)};
    if (messages)
      cells.insert(cells.end(),
                   {fmt::format("{:.2f}", size.messages->time.us()), against_price(size), slowest_hop(*size.messages)});
    table.row(cells);
  }
  table.print(out);
}

Json size_messages_json(const CollectiveSize& size) {
  Json json = messages_json(*size.messages);
  json["price_is_of_a_ring"] = size.runs_ring();
  return json;
}

/// Were what holds it twice as fast, or not slow.
Json relief_json(const sim::Holding& holding) {
  return {{"saves", holding.saves}, {"then_held_by", holding.next ? Json(name(*holding.next)) : Json(nullptr)}};
}

Json size_json(const CollectiveSize& size) {
  const sim::CollectivePrice& price = size.price;
  Json json{{"bytes", size.request.bytes},
            {"time_us", price.time.us()},
            {"algorithm_gb_per_s", size.algorithm_gb_per_s()},
            {"bus_gb_per_s", size.bus_gb_per_s()},
            {"step_time_us", price.time.us()},
            {"from_pytorch_us", price.period.us()},
            {"held_by", name(size.holding.now)},
            {"relief", relief_json(size.holding)},
            {"path", price.path},
            {"why_not_asked", price.why_not_asked.empty() ? Json(nullptr) : Json(price.why_not_asked)},
            {"sms", price.sms},
            {"valid", size.not_valid.empty()},
            {"not_valid", size.not_valid},
            {"caveat", price.caveat.empty() ? Json(nullptr) : Json(price.caveat)}};
  if (size.messages) json["messages"] = size_messages_json(size);
  return json;
}

}  // namespace

bool runs_ring(const sim::CollectivePrice& price) {
  return price.path.starts_with("NCCL ring");  // `uses` counts a tree and NVLS as one
}

std::string slowest_hop(const sim::RingMessages& messages) {
  if (!messages.from) return {};
  std::string out = fmt::format("{} to {}", *messages.from, messages.to);
  out += messages.between_nodes ? fmt::format(", between nodes on rail {}", messages.rail) : ", by NVLink";
  return out;
}

Json messages_json(const sim::RingMessages& messages) {
  Json json{{"time_us", messages.time.us()},
            {"first_rank_us", messages.first.us()},
            {"count", messages.count},
            {"slowest_hop", nullptr}};
  if (messages.from)
    json["slowest_hop"] = {{"from", *messages.from},
                           {"to", messages.to},
                           {"between_nodes", messages.between_nodes},
                           {"rail", messages.between_nodes ? Json(messages.rail) : Json(nullptr)},
                           {"message_us", messages.hop_time.us()}};
  return json;
}

bool CollectiveSize::runs_ring() const {
  return cli::runs_ring(price);
}

double CollectiveSize::algorithm_gb_per_s() const {
  const double us = price.time.us();
  return us > 0 ? static_cast<double>(request.bytes) / us / 1e3 : 0;
}

double CollectiveSize::bus_gb_per_s() const {
  return algorithm_gb_per_s() * bus_factor(request.kind, request.ranks);
}

std::string with_article(CollectiveKind kind) {
  const std::string_view word = dashed_name(kind);
  return fmt::format("{} {}", word.starts_with('a') ? "an" : "a", word);
}

std::string collectives_answer(const CollectiveSizes& all) {
  const CollectiveSize& size = all.sizes.back();
  const sim::CollectiveRequest& request = size.request;
  std::string text = fmt::format(
      "{} of {} over {} on {} takes {}: {:.1f} GB/s of bus bandwidth ({:.1f} of algorithm "
      "bandwidth), held by {}",
      with_article(request.kind), format_bytes(request.bytes), count_of(request.ranks, "GPU"),
      count_of(nodes_of(request), "node"), format_time(size.price.time), size.bus_gb_per_s(), size.algorithm_gb_per_s(),
      words(size.holding.now));
  if (!size.not_valid.empty()) text += "; not valid: " + size.not_valid.front();
  return text;
}

void print_collectives(std::ostream& out, const CollectiveSizes& all) {
  out << collectives_answer(all) << "\n\n";
  print_sizes(out, all);
  print_by_size(out, "runs as", all, [](const CollectiveSize& size) { return size.price.path; });
  print_by_size(out, "rests on", all, [&](const CollectiveSize& size) {
    if (!size.not_valid.empty()) return fmt::format("{}", fmt::join(size.not_valid, "; "));
    return size.price.caveat.empty() ? fmt::format("measured tables of {}", all.machine) : size.price.caveat;
  });
}

Json collectives_json(const CollectiveSizes& all) {
  const sim::CollectiveRequest& request = all.sizes.front().request;
  Json json{{"answer", collectives_answer(all)},
            {"machine", all.machine},
            {"fabric", all.fabric.empty() ? Json(nullptr) : Json(all.fabric)},
            {"collective", dashed_name(request.kind)},
            {"transport", name(request.transport)},
            {"dtype", name(request.dtype)},
            {"group", all.group},
            {"ranks", request.ranks},
            {"ranks_per_node", request.ranks_per_node},
            {"nodes", all.nodes},
            {"sizes", Json::array()}};
  for (const CollectiveSize& size : all.sizes) json["sizes"].push_back(size_json(size));
  return json;
}

}  // namespace foreshard::cli
