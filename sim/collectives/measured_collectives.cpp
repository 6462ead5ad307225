#include "sim/collectives/measured_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/schedule/settings_table.hpp"

namespace foreshard::sim {
namespace {

/// What stands in for a transport without a table of its own, in order.
/// Registered NCCL without NVLS is the same ring (NCCL 2.28.9 register.cc changes the copies, not the
/// algorithm). pytorch#130583 moves the bytes of both collectives by copy engines; its reduce-scatter adds
/// on SMs as a symmetric kernel does.
std::array<Transport, 2> stand_ins(Transport transport, CollectiveKind kind) {
  switch (transport) {
    case Transport::low_contention:
      return {kind == CollectiveKind::all_gather ? Transport::copy_engine : Transport::symmetric, Transport::nccl};
    case Transport::copy_engine:
      return {Transport::symmetric, Transport::nccl};
    default:
      return {Transport::nccl, Transport::nccl};
  }
}

/// (n−1)/n: the share of the whole buffer that crosses a rank's link (nccl-tests, PERFORMANCE.md).
double bus_share(std::uint32_t ranks) {
  return (static_cast<double>(ranks) - 1) / static_cast<double>(ranks);
}

std::string_view word(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return "all-gather";
    case CollectiveKind::reduce_scatter:
      return "reduce-scatter";
    case CollectiveKind::all_reduce:
      break;
  }
  return "all-reduce";
}

void add_caveat(CollectivePrice& price, std::string text) {
  if (!price.caveat.empty()) price.caveat += "; ";
  price.caveat += text;
}

}  // namespace

Nanoseconds interpolate(const CollectiveTable& table, Bytes bytes) {
  const auto& points = table.points;
  if (bytes <= points.front().bytes || points.size() == 1) return points.front().time;
  auto upper = std::lower_bound(points.begin(), points.end(), bytes,
                                [](const CollectiveTable::Point& point, Bytes size) { return point.bytes < size; });
  if (upper == points.end()) --upper;
  const auto lower = upper - 1;
  const double share = static_cast<double>(bytes - lower->bytes) / static_cast<double>(upper->bytes - lower->bytes);
  const double time =
      static_cast<double>(lower->time.count) + share * static_cast<double>(upper->time.count - lower->time.count);
  return Nanoseconds::from_double(std::max(time, 0.0));
}

const CollectiveTable* MeasuredCollectives::nearest_world(CollectiveKind kind, Transport transport,
                                                          std::uint32_t ranks) const {
  // Nearest by ratio; of two equally near the larger, whose bandwidth is closer to that of many ranks.
  const auto distance = [ranks](const CollectiveTable& table) {
    return static_cast<double>(std::max(table.ranks, ranks)) / static_cast<double>(std::min(table.ranks, ranks));
  };
  const CollectiveTable* best = nullptr;
  for (const CollectiveTable& table : profile_.collectives) {
    if (table.kind != kind || table.transport != transport) continue;
    if (best == nullptr || distance(table) < distance(*best) ||
        (distance(table) == distance(*best) && table.ranks > best->ranks))
      best = &table;
  }
  return best;
}

CollectivePrice MeasuredCollectives::from_tables(const CollectiveRequest& request) const {
  CollectivePrice price;
  const CollectiveTable* table = nearest_world(request.kind, request.transport, request.ranks);
  for (Transport other : stand_ins(request.transport, request.kind)) {
    if (table != nullptr) break;
    table = nearest_world(request.kind, other, request.ranks);
    if (table != nullptr)
      add_caveat(price, fmt::format("{} {} is not measured on {}: priced as {}", name(request.transport),
                                    word(request.kind), profile_.name, name(other)));
  }
  if (table == nullptr) {
    add_caveat(price, fmt::format("{} has no table for {}: priced at 0", profile_.name, word(request.kind)));
    return price;
  }
  price.uses = table->uses;
  price.time = interpolate(*table, request.bytes);
  if (table->ranks == request.ranks) return price;
  price.time = price.time.scaled(bus_share(request.ranks) / bus_share(table->ranks));
  add_caveat(price, fmt::format("{} {} of {} ranks is scaled from {} ranks by bus bandwidth", name(table->transport),
                                word(request.kind), request.ranks, table->ranks));
  return price;
}

CollectivePrice MeasuredCollectives::all_reduce(const CollectiveRequest& request) const {
  if (nearest_world(CollectiveKind::all_reduce, request.transport, request.ranks) != nullptr)
    return from_tables(request);
  // docs/model.md, "Collectives": 3.2 × the 2-rank all-gather. A ring all-reduce moves 2(n−1)/n of the
  // buffer, 1 × at 2 ranks, hence the factor for others.
  CollectivePrice price =
      from_tables({CollectiveKind::all_gather, Transport::nccl, request.bytes, 2, request.ranks_per_node});
  price.time = price.time.scaled(profile_.all_reduce_all_gathers * 2 * bus_share(request.ranks));
  if (request.transport != Transport::nccl)
    add_caveat(price, fmt::format("{} all-reduce is not measured: priced as nccl", name(request.transport)));
  if (request.ranks != 2)
    add_caveat(price,
               fmt::format("nccl all-reduce of {} ranks is scaled from 2 ranks by bus bandwidth", request.ranks));
  return price;
}

CollectivePrice MeasuredCollectives::price(const CollectiveRequest& request) const {
  if (request.ranks <= 1) return {};  // nothing to move
  CollectivePrice price = request.kind == CollectiveKind::all_reduce ? all_reduce(request) : from_tables(request);
  if (request.ranks > request.ranks_per_node)
    add_caveat(price, fmt::format("{} ranks on nodes of {}: priced as if all shared one NVSwitch", request.ranks,
                                  request.ranks_per_node));
  return price;
}

}  // namespace foreshard::sim
