// Prices of one collective over sizes, as nccl-tests would print them, as text and JSON.
//
// algbw is the size over the time, busbw that times bus_factor() (nccl-tests' doc/PERFORMANCE.md); the size is the
// whole buffer: an all-gather's output, a reduce-scatter's and an all-to-all's input, else the tensor.
//
// Who: cli/verbs/collectives.cpp. Pure but for the stream that it prints to.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "sim/collectives/bound.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/ring_messages.hpp"

namespace foreshard::cli {

struct CollectiveSize {
  sim::CollectiveRequest request;
  sim::CollectivePrice price;
  sim::Holding holding;
  /// Why it rests on no measurement of the same on this machine, a sentence each; empty where it does.
  std::vector<std::string> not_valid;
  std::optional<sim::RingMessages> messages;  ///< --messages

  /// Whether it is a ring that the price is of, and `messages` can be held beside.
  [[nodiscard]] bool runs_ring() const;
  [[nodiscard]] double algorithm_gb_per_s() const;
  [[nodiscard]] double bus_gb_per_s() const;
};

struct CollectiveSizes {
  std::string machine;
  std::string fabric;  ///< empty: the machine's
  std::string group;   ///< "shard", "replicate": the mesh's dimension
  std::uint32_t nodes = 1;
  std::vector<CollectiveSize> sizes;  ///< one at least, ascending
};

/// One line: of the largest size.
[[nodiscard]] std::string collectives_answer(const CollectiveSizes& all);
/// The answer, a table of sizes, what runs, and what that rests on.
void print_collectives(std::ostream& out, const CollectiveSizes& all);
/// Without `schema` and `verb`.
[[nodiscard]] Json collectives_json(const CollectiveSizes& all);

/// Whether it is a ring that the price is of.
[[nodiscard]] bool runs_ring(const sim::CollectivePrice& price);
/// "7 to 8, between nodes on rail 3"; empty where none is slower than another.
[[nodiscard]] std::string slowest_hop(const sim::RingMessages& messages);
[[nodiscard]] Json messages_json(const sim::RingMessages& messages);

/// "an all-gather", "a reduce-scatter".
[[nodiscard]] std::string with_article(CollectiveKind kind);

}  // namespace foreshard::cli
