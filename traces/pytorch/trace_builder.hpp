// Collects the events of a Kineto trace and turns them into a Run once all are seen. Private to the trace reader.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "traces/pytorch/kineto_event.hpp"
#include "traces/pytorch/profiler_trace.hpp"
#include "traces/pytorch/stat_list.hpp"
#include "traces/pytorch/trace_collective.hpp"

namespace foreshard::traces {

class TraceBuilder {
 public:
  TraceBuilder(const TraceOptions& options, ProfilerTrace& trace) : options_(options), trace_(trace) {}

  void add(const KinetoEvent& event);
  [[nodiscard]] bool has_device_ops() const { return !device_ops_.empty(); }
  /// Numbers threads and streams, links calls and GPU work, sorts, and makes times relative. `rank` is the trace's.
  void finish(std::optional<std::uint32_t> rank);

 private:
  /// A host op with the thread's system id still in place of its number.
  struct HostOp {
    HostOpRecord record;  // times absolute
    std::int64_t thread = 0;
    std::int64_t process = 0;
  };
  struct DeviceOp {
    DeviceOpRecord record;  // times absolute, stream not set
    std::int64_t device = 0;
    std::int64_t stream = 0;
    std::int64_t external_id = -1;
    bool is_peer_copy = false;
    std::optional<SplitSizes> splits;  // of an all-to-all of unequal parts
  };
  /// What a record_param_comms op said, by its external id.
  struct Communication {
    CollectiveKind kind = CollectiveKind::all_gather;
    Bytes bytes = 0;
    CommunicatorId communicator;
  };
  /// A send or a receive, as the host asked for it.
  struct Message {
    std::int64_t thread = 0;
    std::int64_t start = 0;  // absolute
    std::int64_t external_id = -1;
    bool sends = false;
    Bytes bytes = 0;
    CommunicatorId communicator;
    auto operator<=>(const Message&) const = default;
  };
  /// A wait that the profiler recorded, or a record of an event.
  struct Sync {
    bool is_record = false;
    bool on_host = false;
    std::int64_t start = 0;
    std::uint64_t correlation = 0;
    std::int64_t stream = 0;
    std::int64_t wait_on_stream = -1;
    std::uint64_t record = 0;
  };
  using Call = std::pair<std::uint64_t, std::size_t>;  // correlation, index into host_ops_

  void add_host_op(const KinetoEvent& event, HostOpRecord::Kind kind);
  void add_device_op(const KinetoEvent& event);
  void add_communication(const KinetoEvent& event);
  void add_sync(const KinetoEvent& event);
  [[nodiscard]] std::int64_t end_of(const KinetoEvent& event);
  [[nodiscard]] CommunicatorId communicator(const CollectiveArgs& args);

  void choose_device();
  void link_copies();
  void link_messages();
  void size_splits(std::uint32_t rank);
  void link_calls();
  void drop_duplicates();
  void number_threads();
  void number_streams();
  void emit(std::int64_t origin);
  void emit_events(std::int64_t origin);
  [[nodiscard]] std::vector<Call> calls() const;

  const TraceOptions& options_;
  ProfilerTrace& trace_;
  StatList stats_;
  std::vector<HostOp> host_ops_;
  std::vector<DeviceOp> device_ops_;
  std::vector<Sync> syncs_;
  std::set<TraceCollective> collectives_;
  std::map<std::int64_t, Communication> communications_;
  std::vector<Message> messages_;
  std::map<std::string, CommunicatorId, std::less<>> communicator_ids_;
  std::map<std::int64_t, StreamId> stream_ids_;
};

}  // namespace foreshard::traces
