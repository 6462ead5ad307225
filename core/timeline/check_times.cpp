#include "core/timeline/check_times.hpp"

#include <fmt/core.h>

namespace foreshard {
namespace {

constexpr std::int64_t kFarthest = std::int64_t{1} << 53;

bool near(Nanoseconds time) {
  return time.count >= -kFarthest && time.count <= kFarthest;
}

tl::unexpected<Error> refuse(const Run& run, std::string what) {
  return fail(ErrorKind::input, std::move(what), run.info.name, "the store is damaged; write it again");
}

tl::unexpected<Error> odd(const Run& run, const char* table, std::size_t index) {
  return refuse(run, fmt::format("{} {} has times that no run can have: it ends before it starts, or lies more than "
                                 "104 days away",
                                 table, index));
}

template <class Record>
Result<void> check_spans(const Run& run, const char* what, const std::vector<Record>& records) {
  for (std::size_t i = 0; i < records.size(); ++i)
    if (!near(records[i].start) || !near(records[i].end) || records[i].end < records[i].start) return odd(run, what, i);
  return {};
}

template <class Record>
Result<void> check_moments(const Run& run, const char* what, const std::vector<Record>& records) {
  for (std::size_t i = 0; i < records.size(); ++i)
    if (!near(records[i].time)) return odd(run, what, i);
  return {};
}

/// The memory of a block is freed after it is allocated, and comes back after that: whatever draws or explains it
/// subtracts these times.
Result<void> check_order(const Run& run) {
  for (std::size_t i = 1; i < run.allocator.size(); ++i)
    if (run.allocator[i].time < run.allocator[i - 1].time)
      return refuse(run, fmt::format("allocator_event {} lies {} ns before allocator_event {}: their times decrease", i,
                                     (run.allocator[i - 1].time - run.allocator[i].time).count, i - 1));
  return {};
}

}  // namespace

Result<void> check_times(const Run& run) {
  for (const Result<void>& checked :
       {check_spans(run, "host_op", run.host_ops), check_spans(run, "device_op", run.device_ops),
        check_spans(run, "step", run.steps), check_spans(run, "phase", run.phases),
        check_spans(run, "annotation", run.annotations), check_moments(run, "event", run.events),
        check_moments(run, "allocator_event", run.allocator)})
    if (!checked) return checked;
  for (std::size_t i = 0; i < run.device_ops.size(); ++i)
    if (!near(run.device_ops[i].issue)) return odd(run, "device_op", i);
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].device_end && !near(*run.steps[i].device_end)) return odd(run, "step", i);
  return check_order(run);
}

}  // namespace foreshard
