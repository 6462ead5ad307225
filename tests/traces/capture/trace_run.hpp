// A small profiler trace built by hand: annotations, calls with their device ops, in microseconds.
#pragma once

#include <cstdint>
#include <string>

#include "core/run/run.hpp"

namespace foreshard::traces {

class TraceRun {
 public:
  TraceRun() {
    run.units = {{"", {{"norm", {4}}}}, {"layers.0", {}}};
    run.streams = {{StreamId{0}, "stream 7", 7, 0}, {StreamId{1}, "stream 20", 20, 0}};
  }

  void range(const std::string& name, double start, double end) {
    host(HostOpRecord::Kind::annotation, name, start, end, 0);
  }

  /// A runtime call without a device op.
  void call(const std::string& name, double start, double end) {
    host(HostOpRecord::Kind::runtime, name, start, end, 0);
  }

  /// A launch at [start, end) of an op that runs at [runs, runs + lasts) on `stream`.
  void launch(const std::string& name, double start, double end, double runs, double lasts, std::uint32_t stream = 0,
              std::uint32_t thread = 0) {
    const std::uint64_t id = ++correlation_;
    host(HostOpRecord::Kind::runtime, "cudaLaunchKernel", start, end, id, thread);
    DeviceOpRecord op;
    op.stream = StreamId{stream};
    op.label = run.labels.intern(name);
    op.issue = us(start);
    op.start = us(runs);
    op.end = us(runs + lasts);
    op.correlation = id;
    op.grid = {64, 1, 1};
    if (name.starts_with("Memcpy")) {
      op.kind = DeviceOpRecord::Kind::copy;
      op.bytes = 1000;
    }
    if (name.starts_with("Memset")) op.kind = DeviceOpRecord::Kind::memset;
    if (name.starts_with("nccl")) {
      op.kind = DeviceOpRecord::Kind::collective;
      op.grid = {24, 1, 1};
    }
    run.device_ops.push_back(op);
  }

  static Nanoseconds us(double value) { return Nanoseconds::from_double(value * 1000); }

  Run run;

 private:
  void host(HostOpRecord::Kind kind, const std::string& name, double start, double end, std::uint64_t correlation,
            std::uint32_t thread = 0) {
    HostOpRecord op;
    op.kind = kind;
    op.thread = thread;
    op.label = run.labels.intern(name);
    op.start = us(start);
    op.end = us(end);
    op.correlation = correlation;
    run.host_ops.push_back(op);
  }

  std::uint64_t correlation_ = 0;
};

}  // namespace foreshard::traces
