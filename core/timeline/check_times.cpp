#include "core/timeline/check_times.hpp"

#include <string>

namespace foreshard {
namespace {

constexpr std::int64_t kFarthest = std::int64_t{1} << 53;

bool near(Nanoseconds time) {
  return time.count >= -kFarthest && time.count <= kFarthest;
}

tl::unexpected<Error> odd(const Run& run, const char* what, std::size_t index) {
  return fail(ErrorKind::input,
              std::string(what) + " " + std::to_string(index) + " has times that no run can have: it ends before it " +
                  "starts, or lies more than 104 days away",
              run.info.name, "the store is damaged; write it again");
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

}  // namespace

Result<void> check_times(const Run& run) {
  for (const Result<void>& checked :
       {check_spans(run, "host op", run.host_ops), check_spans(run, "device op", run.device_ops),
        check_spans(run, "step", run.steps), check_spans(run, "phase", run.phases),
        check_spans(run, "annotation", run.annotations), check_moments(run, "event", run.events),
        check_moments(run, "allocator event", run.allocator)})
    if (!checked) return checked;
  for (std::size_t i = 0; i < run.device_ops.size(); ++i)
    if (!near(run.device_ops[i].issue)) return odd(run, "device op", i);
  for (std::size_t i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].device_end && !near(*run.steps[i].device_end)) return odd(run, "step", i);
  return {};
}

}  // namespace foreshard
