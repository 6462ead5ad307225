// What the host asked of a SimDevice, call by call and priced: the same program on a host of another speed, without
// running the program again.
//
// That holds as long as the program did not look at the device's time: a call of event_complete (the allocator's, for
// blocks under record_stream) makes the log one of this speed alone.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/device/device.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/engine/op_table.hpp"

namespace foreshard::sim {

class DeviceLog {
 public:
  enum class Kind : std::uint8_t {
    add_stream,
    add_communicator,   ///< a: index into communicators()
    submit,             ///< a: index into ops()
    record,             ///< a: stream
    wait,               ///< a: stream, b: event
    synchronize_event,  ///< b: event
    synchronize,
    host_work,    ///< b: nanoseconds, before they are scaled
    driver_call,  ///< b: nanoseconds of the host, whatever its speed
    host_now,
  };
  struct Call {
    Kind kind = Kind::synchronize;
    std::uint32_t a = 0;
    std::int64_t b = 0;
  };
  static constexpr std::uint32_t kOnce = UINT32_MAX;

  void call(Kind kind, std::uint32_t a = 0, std::int64_t b = 0) { calls_.push_back({kind, a, b}); }
  /// `same_as`: ops of one stream that have the same number are equal but for their issue time; kOnce: no other is.
  void submit(const EngineOp& op, std::uint32_t same_as);
  void add_communicator(const CommunicatorOptions& options) {
    call(Kind::add_communicator, static_cast<std::uint32_t>(communicators_.size()));
    communicators_.push_back(options);
  }
  /// What the collective that is submitted next was priced as.
  void price(const CollectiveRequest& request);
  void looked_at_time() { depends_on_time_ = true; }

  [[nodiscard]] const std::vector<Call>& calls() const { return calls_; }
  [[nodiscard]] const std::vector<EngineOp>& ops() const { return ops_; }
  [[nodiscard]] const std::vector<CommunicatorOptions>& communicators() const { return communicators_; }
  /// Distinct ones.
  [[nodiscard]] const std::vector<CollectiveRequest>& requests() const { return requests_; }
  /// By collective, in order of their calls: index into requests().
  [[nodiscard]] const std::vector<std::uint32_t>& priced() const { return priced_; }
  [[nodiscard]] bool depends_on_time() const { return depends_on_time_; }

 private:
  std::vector<Call> calls_;
  std::vector<EngineOp> ops_;
  std::vector<CommunicatorOptions> communicators_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> index_of_;  // by same_as and stream
  std::vector<CollectiveRequest> requests_;
  std::map<CollectiveRequest, std::uint32_t> index_of_request_;
  std::vector<std::uint32_t> priced_;
  bool depends_on_time_ = false;
};

}  // namespace foreshard::sim
