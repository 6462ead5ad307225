// One event of a Kineto Chrome trace, its JSON parsed (docs/formats.md; Kineto libkineto/src/output_json.cpp).
// Fields that an event lacks keep their defaults.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "traces/pytorch/json_pieces.hpp"

namespace foreshard::traces {

/// Events by what they are to a run. `other` is counted, the rest that no member names is known and not needed.
enum class EventRole : std::uint8_t {
  runtime = 0,     ///< cuda_runtime, cuda_driver
  annotation = 1,  ///< user_annotation
  cpu_op = 2,
  kernel = 3,
  memcpy = 4,
  memset = 5,
  sync = 6,          ///< cuda_sync
  event_record = 7,  ///< cuda_event
  metadata = 8,      ///< ph M
  ignored = 9,       ///< known and not kept: flows, GPU annotations, python functions, overhead, …
  other = 10,        ///< a category this version does not know
};

/// What a collective's kernel or its record_param_comms op says about it.
struct CollectiveArgs {
  std::string_view name;   ///< "_allgather_base"
  std::string_view dtype;  ///< PyTorch's scalar type name: "BFloat16"
  std::optional<std::uint64_t> in_elements;
  std::optional<std::uint64_t> out_elements;
  std::string_view in_split;  ///< elements for each rank of an all-to-all of unequal parts: "[0, 8388608]", may be cut
  std::string_view out_split;
  std::uint64_t group_size = 0;
  std::string_view group;        ///< process group name
  std::string_view description;  ///< "default_pg"
  std::string_view ranks;        ///< "[0, 1, 2, 3]", may be cut by PyTorch
};

/// Views are valid until the next parse.
struct KinetoEvent {
  EventRole role = EventRole::other;
  std::string_view category;
  std::string_view name;
  std::optional<std::int64_t> start_ns;  ///< `ts`; none where absent or out of range
  std::optional<std::int64_t> duration_ns;
  std::optional<std::int64_t> pid;  ///< device of GPU events; none where it is a text
  std::optional<std::int64_t> tid;  ///< stream of GPU events
  std::uint64_t correlation = 0;    ///< 0: none
  std::optional<std::int64_t> external_id;
  std::optional<std::int64_t> stream;
  Bytes bytes = 0;
  std::array<std::uint32_t, 3> grid{};
  std::array<std::uint32_t, 3> block{};
  CollectiveArgs collective;
  std::string_view sync_kind;  ///< "Stream Wait Event", "Event Sync", …
  std::optional<std::int64_t> wait_on_stream;
  std::uint64_t wait_on_record = 0;  ///< correlation of the cudaEventRecord waited for; 0: unknown
  std::string_view label;            ///< metadata: args.name
  bool malformed_field = false;      ///< a known field had the wrong type and was left out
};

class KinetoEventParser {
 public:
  KinetoEventParser();
  ~KinetoEventParser();
  /// Parses one piece of `file`. Fails where it is no valid JSON object; `cpu_op` arguments are only read for
  /// record_param_comms.
  [[nodiscard]] Result<KinetoEvent> parse(const JsonPiece& piece, const std::string& file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decimal microseconds ("4400789415279.673") as integer nanoseconds, digits beyond the third rounded half away
/// from zero. None where the text is no number or lies outside −10^15 to 4·10^15 µs: the bound keeps sums and
/// differences of times within 64 bits.
[[nodiscard]] std::optional<std::int64_t> parse_microseconds(std::string_view text);

}  // namespace foreshard::traces
