// What a device op is, for people: its class, its unit, its stream's part in FSDP2.
//
// Used by lanes.cpp. Traces name none of this: kernels are classed by their names, units come from FSDP's
// annotations around the call that issued the op, and a stream is called after what runs on it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::viz {

class OpFacts {
 public:
  explicit OpFacts(const Run& run);

  [[nodiscard]] OpClass op_class(const DeviceOpRecord& op) const;
  /// Module path, "root", or empty where nothing says it.
  [[nodiscard]] std::string unit(const DeviceOpRecord& op) const;
  /// The kernel's or collective's name, at most 70 letters.
  [[nodiscard]] std::string name(const DeviceOpRecord& op) const;

  struct Stream {
    int rank = 0;  ///< place from the top
    std::string name;
    auto operator<=>(const Stream&) const = default;
  };
  [[nodiscard]] Stream stream(StreamId id) const;

 private:
  struct Range {
    Nanoseconds start;
    Nanoseconds end;
    LabelId label;
  };
  /// The text of the innermost of FSDP's annotations around a host time; empty where there is none.
  [[nodiscard]] const std::string& annotation(Nanoseconds time) const;
  void name_streams();

  const Run& run_;
  std::vector<Range> ranges_;  // by start
  std::map<StreamId, Stream> streams_;
};

}  // namespace foreshard::viz
